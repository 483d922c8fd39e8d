#!/usr/bin/env bash
# Run one of the scripts here from the root of the checkout.
#   scripts/gpu/run.sh batch --seconds 90      results: $OUT/batch.json, batch.jsonl.gz
# KFORECAST_COMMIT names the commit where there is no .git.
. scripts/gpu/setup.sh
name=$1
shift
python3 "scripts/gpu/$name.py" --out "$out" "$@"
