#!/usr/bin/env bash
# kernel_tuner 1.5 and us on the same configurations. Besides .whl, carry .whl-kt with what kernel_tuner needs there:
#   about_time alive_progress autograd cffi cma deprecated graphemeu jsonschema jsonschema_specifications kernel_tuner
#   moocore platformdirs pycparser pymoo python_constraint2 referencing rpds_py tzdata xmltodict      (13 MB)
# results: $OUT/against_kernel_tuner.json
. scripts/gpu/setup.sh
wheels=${KFORECAST_KERNEL_TUNER_WHEELS:-.whl-kt}
site=/tmp/kernel-tuner-site
if ! python3 -c 'import kernel_tuner' 2>/dev/null; then
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" "$wheels"/*.whl
  export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$site" # behind our own: what both carry is taken from there
fi
python3 scripts/gpu/against_kernel_tuner.py --out "$out" "$@"
