# Sourced by the scripts here: on a GPU machine without this package, install carried wheels and make the checkout importable.
#   . scripts/gpu/setup.sh
set -euo pipefail
checkout=$PWD
site=${KFORECAST_SITE:-/tmp/kforecast-site}
if ! python3 -c 'import kforecast, pydantic' 2>/dev/null; then
  mkdir -p "$site"
  if compgen -G '.whl/*.whl' >/dev/null; then
    python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" .whl/*.whl
  fi
  ln -sfn "$checkout" "$site/kforecast"
  export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
fi
out=${OUT:-build/gpu}
mkdir -p "$out"
export KFORECAST_DB=${KFORECAST_DB:-$(mktemp -d)/kforecast.db}
export PYTHONUNBUFFERED=1
