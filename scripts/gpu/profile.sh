#!/usr/bin/env bash
# The device profile on a GPU machine: measured twice, stored, shown; then a kernel through ncu and compute-sanitizer.
# usage: scripts/gpu/profile.sh        results: $OUT/profile.json, doctor.txt, measure.txt, tests.txt
. scripts/gpu/setup.sh

python3 - "$out/profile.json" <<'PYTHON'
import json
import sys
import time
from pathlib import Path

from kforecast.bench.broker.lock import device_lock
from kforecast.bench.devices.cuda.lane import CudaLane
from kforecast.bench.devices.cuda.profile import measure_profile, quick_rates, rates_of

lane = CudaLane(0)
try:
    with device_lock(lane.device_id, device="cuda:0", purpose="scripts/gpu/profile.sh"):
        lane.launcher()
        quick_rates(lane)  # compiles once
        begin = time.perf_counter()
        quick = quick_rates(lane)
        quick_s = time.perf_counter() - begin
        profiles = [measure_profile(lane) for _ in range(2)]
    rates = rates_of(profiles[1])
finally:
    lane.close()
numbers = [key for key, value in profiles[0].items() if isinstance(value, float) and value]
found = {
    "profiles": profiles,
    "second_over_first": {key: profiles[1][key] / profiles[0][key] for key in numbers},
    "quick": {"bandwidth_gbs": quick.bandwidth / 1e9, "seconds_s": quick_s},
    "rates": {"bandwidth_gbs": rates.bandwidth / 1e9, **{f"{u}_tflops": r / 1e12 for u, r in rates.operations.items()}},
}
Path(sys.argv[1]).write_text(json.dumps(found, indent=2) + "\n")
print(json.dumps(found["profiles"][1], indent=2))
print("ratios of the second profile to the first:", {k: round(v, 3) for k, v in found["second_over_first"].items()})
print("quick:", found["quick"])
PYTHON

python3 -m kforecast doctor --profile | tee "$out/doctor.txt" || true # 4 where something else is missing
kernel=bench/tasks/builtin/softmax_rows/tuned.cu
for arguments in "--profile" "--effort claim" "--profile --json"; do
  # shellcheck disable=SC2086
  python3 -m kforecast measure "$kernel" --no-broker $arguments || true
done 2>&1 | tee "$out/measure.txt"
python3 -m pytest -q tests/bench/devices/test_cuda_profile.py 2>&1 | tee "$out/tests.txt"
