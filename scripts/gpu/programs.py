"""Programs with a main() of their own (tests/exhibits/programs): how each ends, and what CUPTI says of its kernels.

Wanted: each ends as its first comment says, the launches are all counted, nothing is left behind; the mean time of
vector_add's launches is that of the same kernel measured with a header; a program compared with itself is a ratio of 1.
"""

from __future__ import annotations

import math
import subprocess
import time
from pathlib import Path
from typing import Any

from common import EXHIBITS, Bench, Clock, load, options, report, say, table

from kforecast.bench.devices.catalogue import ordinal_of
from kforecast.bench.devices.cuda.monitor import Monitor
from kforecast.bench.programs.build import build_program
from kforecast.bench.programs.cupti import find_cupti
from kforecast.store.database import Store
from kforecast.store.errors import KforecastError
from kforecast.store.models import Measurement
from kforecast.tools import programs as tool
from kforecast.tools.programs import ProgramResult, measure_program

WANTED: dict[str, tuple[str, dict[str, int] | None]] = {
    "vector_add": ("ran", {"vector_add": 20}),
    "reduction": ("ran", {"fill": 1, "sums::partial<256>": 10, "sums::partial<512>": 10}),
    "streams": ("ran", {"spin": 32}),
    "graph": ("ran", {"add_one": 30}),
    "managed_memory": ("ran", {"twice": 4}),
    "fails": ("failed", {"nothing": 1}),
    "illegal_access": ("failed", None),
    "endless": ("timeout", None),
    "segfault": ("crashed", None),
    "cpu_only": ("ran", {}),
    "does_not_compile": ("compile_error", None),
}
"""How each ends, and the launches by kernel where they can all be counted."""
HEADER = """/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
"""
KERNEL = """extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
"""


def main() -> None:
    parser = options(__doc__, seconds=60)
    parser.add_argument("--deadline", type=float, default=2.0, help="seconds until the endless one is ended (2)")
    parser.add_argument("names", nargs="*", help="programs by their files' stems (all)")
    asked = parser.parse_args()
    if asked.dry:  # without a GPU: only what launches nothing can be told
        tool._gpu = lambda device: tool._Gpu("cuda:0", "GPU-none", "sm_90")
    clock, store = Clock(asked.seconds), Store.open()
    before_mb = _memory_mb(asked)
    rows: list[dict[str, Any]] = []
    for name, (wanted, launches) in WANTED.items():
        if clock.over or (asked.names and name not in asked.names):
            continue
        rows.append(_row(name, wanted, launches, store, asked))
        say(f"{clock.elapsed:6.1f} s  {name}: {rows[-1]['outcome']} {rows[-1]['reason']}")
    cupti = find_cupti()
    summary: dict[str, Any] = {
        "programs": len(rows),
        "as_expected": sum(row["as_expected"] for row in rows),
        "odd": [row["name"] for row in rows if not row["as_expected"]],
        "cupti": None if cupti is None else str(cupti.library),
        "isolation": next((row["isolation"] for row in rows if row["isolation"]), ""),
        "with_a_header": None,
        "against_itself": None,
    }
    if not asked.dry and not asked.names:
        summary |= _compared(rows, store, asked.device)
    store.close()
    until = time.monotonic() + 2.0
    while _memory_mb(asked) != before_mb and time.monotonic() < until:
        time.sleep(0.1)
    summary |= {"memory_before_mb": before_mb, "memory_after_mb": _memory_mb(asked), "seconds": clock.elapsed}
    columns = ["name", "wanted", "outcome", "as_expected", "launches", "kernel_us", "wall_s", "seconds", "reason"]
    text = table(columns, [[row[key] for key in columns] for row in rows])
    kernels = [[row["name"], *kernel] for row in rows for kernel in row["kernels"]]
    if kernels:
        text += "\n\n" + table(["program", "kernel", "launches", "mean us", "least us", "most us"], kernels)
    told = [f"{row['name']}: {line}" for row in rows if not row["as_expected"] for line in row["told"]]
    report(
        asked.out,
        "programs",
        asked.device if not asked.dry else "cpu",
        summary,
        rows,
        "\n".join([text, *told, *(f"{key}: {value}" for key, value in summary.items())]),
    )


def _row(name: str, wanted: str, launches: dict[str, int] | None, store: Store, asked: Any) -> dict[str, Any]:
    path = EXHIBITS / "programs" / f"{name}.cu"
    begin = time.monotonic()
    timeout_s = asked.deadline if wanted == "timeout" else 20.0
    row: dict[str, Any] = {"name": name, "wanted": wanted, "told": (), "kernels": [], "isolation": ""}
    try:
        result: ProgramResult | None = measure_program(str(path), device=asked.device, timeout_s=timeout_s, store=store)
    except KforecastError as error:
        return (
            row
            | dict.fromkeys(("launches", "kernel_us", "wall_s"))
            | {
                "outcome": "no answer",
                "reason": str(error),
                "as_expected": False,
                "seconds": time.monotonic() - begin,
            }
        )
    assert result is not None
    run = result.run
    counted = {kernel.name: kernel.launches for kernel in run.kernels}
    right = run.outcome == wanted and (launches is None or counted == launches)
    told = [*run.notes, f"output: {run.output[:500]}", f"launches: {counted}, wanted {launches}"]
    if not right and wanted == "ran":
        told.append(f"without a fence: {_plain(path, run.toolchain)}")
    return row | {
        "outcome": run.outcome,
        "reason": run.reason,
        "as_expected": right,
        "launches": sum(counted.values()),
        "kernel_us": run.kernel_us,
        "wall_s": run.wall_s,
        "seconds": time.monotonic() - begin,
        "kernels": [[k.name, k.launches, k.mean_us, k.least_us, k.most_us] for k in run.kernels],
        "isolation": run.isolation,
        "told": told,
    }


def _plain(path: Path, toolchain: str) -> str:
    """What the same program says when nothing holds it: is it the fence?"""
    built = build_program(path.read_text(), {}, name=path.name, arch=toolchain.rpartition(" ")[2])
    if built.path is None:
        return "it does not compile"
    done = subprocess.run([str(built.path)], capture_output=True, text=True, timeout=20, check=False)
    return f"exit code {done.returncode}, {done.stdout[:200]} {done.stderr[:200]}"


def _compared(rows: list[dict[str, Any]], store: Store, device: str) -> dict[str, Any]:
    """vector_add by CUPTI against its measurement with a header; and the program against itself."""
    found: dict[str, Any] = {}
    with Bench(device) as bench:
        own = bench.measure(load(HEADER + KERNEL, called="vector_add"), effort="normal")
    launches: list[Any] = next((row["kernels"] for row in rows if row["name"] == "vector_add"), [])
    mean_us = next((kernel[2] for kernel in launches if kernel[0] == "vector_add"), None)
    if isinstance(own, Measurement) and own.time_us and mean_us:
        found["with_a_header"] = {
            "program_mean_us": mean_us,
            "measured_cold_us": own.time_us,
            "measured_warm_us": own.time_warm_us,
            "ratio": mean_us / own.time_us,
        }
    path = str(EXHIBITS / "programs" / "vector_add.cu")
    try:
        compared = measure_program(path, baseline=path, device=device, store=store).comparison
    except KforecastError as error:
        return found | {"against_itself": str(error)}
    if compared is not None:
        inside = compared.low is not None and compared.high is not None and compared.low <= 1.0 <= compared.high
        width = math.log2(compared.high / compared.low) if compared.low and compared.high else None
        found["against_itself"] = {**compared.model_dump(), "holds_1": inside, "log2_width": width}
    return found


def _memory_mb(asked: Any) -> float | None:
    used = None if asked.dry else Monitor(ordinal_of(asked.device)).memory_used()
    return None if used is None else used / 1e6


if __name__ == "__main__":
    main()
