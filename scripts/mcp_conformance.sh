#!/usr/bin/env bash
# The MCP server against programs that are not ours: the official conformance scenarios that a server without fixture
# tools can pass, on both eras of the protocol, and the Inspector's command line, which lists and calls every tool over
# standard input and output and over HTTP.
# usage: scripts/mcp_conformance.sh        PYTHON=… picks the interpreter (default: .venv/bin/python, else python3)
# Exit codes: 0 all passed; 1 something did not; 75 npm or its registry is not there, so nothing was tried.
# Needs npm, gcc, and at the first time the registry: about 330 MB, kept in KFORECAST_NPM_DIR (default: the user's cache).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

if [ -z "${PYTHON:-}" ]; then
  if [ -x .venv/bin/python ]; then PYTHON=$root/.venv/bin/python; else PYTHON=$(command -v python3); fi
fi
node=22
conformance=0.2.0-alpha.11 # stable 0.1.16 does not know 2026-07-28
inspector=2.12.0
npm_dir=${KFORECAST_NPM_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kforecast-npm}

command -v npm >/dev/null || { echo "mcp conformance: not tried, there is no npm" >&2; exit 75; }
wanted="$node $conformance $inspector"
if [ "$(cat "$npm_dir/wanted" 2>/dev/null)" != "$wanted" ]; then
  mkdir -p "$npm_dir"
  timeout 90 npm install --silent --no-fund --no-audit --prefix "$npm_dir" "node@$node" \
    "@modelcontextprotocol/conformance@$conformance" "@modelcontextprotocol/inspector@$inspector" ||
    { echo "mcp conformance: not tried, the packages cannot be had" >&2; exit 75; }
  echo "$wanted" >"$npm_dir/wanted"
fi
export PATH=$npm_dir/node_modules/.bin:$PATH

work=$(mktemp -d "${TMPDIR:-/tmp}/kf-mcp.XXXXXX")
server=
# The broker and a search's worker outlive their clients by some seconds, and may write yet.
cleaned() { rm -rf "$work" 2>/dev/null || { sleep 7 && rm -rf "$work"; } || true; }
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; cleaned' EXIT
mkdir -m 700 "$work/run"
export KFORECAST_DB=$work/kforecast.db KFORECAST_RUNTIME_DIR=$work/run KFORECAST_BROKER_IDLE_S=5
cd "$work"
"$PYTHON" -m kforecast tasks copy vector_add . >/dev/null

port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port/mcp
"$PYTHON" -m kforecast mcp --http --port "$port" 2>"$work/http.log" &
server=$!
for _ in $(seq 100); do
  "$PYTHON" -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null && break
  sleep 0.1
done

scenarios() { # ERA SCENARIO… : each must have checks, and none that failed
  local era=$1 name
  shift
  for name in "$@"; do
    if timeout 60 conformance server --url "$url" --spec-version "$era" --scenario "$name" >"$work/$era-$name" 2>&1 &&
      ! grep -q "SKIPPED: scenario" "$work/$era-$name"; then
      echo "ok      $era $name"
    else
      echo "failed  $era $name"
      sed 's/^/        /' "$work/$era-$name"
    fi
  done
}

inspect() { # NAME, then arguments of the Inspector: what it prints must be a result that is no error
  local name=$1
  shift
  if timeout 90 mcp-inspector --cli "$@" >"$work/$name.json" 2>"$work/$name.err" &&
    "$PYTHON" -c '
import json, sys
found = json.load(open(sys.argv[1]))
assert found.get("tools") or (not found.get("isError") and found["structuredContent"]["next"])
' "$work/$name.json" 2>>"$work/$name.err"; then
    echo "ok      $name"
  else
    echo "failed  $name"
    sed 's/^/        /' "$work/$name.err" "$work/$name.json"
  fi
}

every_tool() { # NAME, then how the Inspector reaches the server
  local name=$1
  shift
  inspect "$name-list" "$@" --method tools/list
  inspect "$name-measure" "$@" --method tools/call --tool-name measure_kernel \
    --tool-arg kernel=vector_add.c --tool-arg effort=quick
  inspect "$name-forecast" "$@" --method tools/call --tool-name forecast_kernel \
    --tool-arg candidate=vector_add.c --tool-arg baseline=tuned
  inspect "$name-search" "$@" --method tools/call --tool-name search --tool-arg seed=vector_add.c \
    --tool-arg 'budget={"measurements":3}' --tool-arg "request_key=$name"
  local search parent
  search=$("$PYTHON" -c "import json; print(json.load(open('$name-search.json'))['structuredContent']['search_id'])")
  inspect "$name-status" "$@" --method tools/call --tool-name get_status --tool-arg "id=$search" --tool-arg wait_s=40
  parent=$("$PYTHON" -c "
import json
asks = json.load(open('$name-status.json'))['structuredContent']['asks']
print(asks[0]['parent_id'] if asks else 'none')")
  inspect "$name-propose" "$@" --method tools/call --tool-name search_propose --tool-arg "search_id=$search" \
    --tool-arg "candidates=[{\"parent_id\":\"$parent\",\"kernel\":\"vector_add.c\"}]" --tool-arg wait_s=0
  inspect "$name-stop" "$@" --method tools/call --tool-name stop --tool-arg "id=$search"
}

{
  scenarios 2025-11-25 server-initialize server-session-lifecycle ping tools-list server-sse-multiple-streams \
    resources-list prompts-list dns-rebinding-protection
  scenarios 2026-07-28 tools-list server-sse-multiple-streams resources-list prompts-list \
    sep-2164-resource-not-found dns-rebinding-protection caching http-header-validation
} >"$work/scenarios.out" &
# The Inspector hands on little of its environment, so the server is told where its store is.
every_tool stdio env "KFORECAST_DB=$KFORECAST_DB" "KFORECAST_RUNTIME_DIR=$KFORECAST_RUNTIME_DIR" "$PYTHON" -m kforecast mcp >"$work/stdio.out" &
every_tool http "$url" --transport http >"$work/http.out" &
for job in $(jobs -p); do [ "$job" = "$server" ] || wait "$job" || true; done

cat "$work"/scenarios.out "$work"/stdio.out "$work"/http.out
passed=$(cat "$work"/*.out | grep -c '^ok ' || true)
echo "mcp conformance: $passed of 30 passed"
[ "$passed" -eq 30 ]
