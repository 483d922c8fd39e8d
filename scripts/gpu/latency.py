"""How long a caller waits for a kernel far under a millisecond: cold from the command line, then through a warm broker.

Wanted: `kforecast measure` cold (no broker, empty caches, compiled .pyc) in 2.5 s; 200 different kernels through the
warm broker with a median of 150 ms.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import EXHIBITS, ROOT, Clock, options, quantile, report, say, table

from kforecast.store.database import Store
from kforecast.store.errors import KforecastError
from kforecast.store.models import Effort
from kforecast.tools.measure import measure

_HEADER = """/* kforecast 1
[task]
name = "vector_add_1m"
in.a = {{ dtype = "f32", shape = ["N"] }}
in.b = {{ dtype = "f32", shape = ["N"] }}
out.c = {{ dtype = "f32", shape = ["N"] }}
reference = "vector_add.py:reference"
precision = {{ multiply = "f32", accumulate = "f32" }}
flops = "N"
checked = [{{ N = 1 }}, {{ N = 31 }}, {{ N = 1000 }}, {{ N = 65536 }}]
timed = [{{ N = 1048576 }}]
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
{geometry}*/
#define VARIANT {variant}
"""
_CUDA = """extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) c[i] = a[i] + b[i];
}
"""
_C = """void vector_add(const float* a, const float* b, float* c, int N) {
  for (int i = 0; i < N; i++) c[i] = a[i] + b[i];
}
"""


def main() -> None:
    parser = options(__doc__, seconds=120)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--cold-runs", type=int, default=3)
    parser.add_argument("--cli-runs", type=int, default=10, help="through the warm broker (10)")
    asked = parser.parse_args()
    language = "c" if asked.dry else "cuda"
    clock = Clock(asked.seconds)
    compileall.compile_dir(str(ROOT), quiet=2, workers=0)
    with _places() as home:
        files = list(_files(home, language, asked.kernels + 10))
        baseline, *files = files
        rows = [_cold(home, number, file, baseline) for number, file in enumerate(files[: asked.cold_runs])]
        _use(home / "warm")
        with Store.open() as store:
            rows.append(_call("first through the broker", store, files[0], baseline, "quick"))
            for effort, part in (("quick", files[1 : asked.kernels + 1]), ("normal", files[: min(8, asked.kernels)])):
                for file in part:
                    if clock.over:
                        break
                    rows.append(_call(f"warm, {effort}", store, file, baseline, effort))  # type: ignore[arg-type]
                say(f"{clock.elapsed:6.1f} s  {effort}: {len(rows)} runs so far")
        for file in files[: asked.cli_runs]:
            if not clock.over:
                rows.append(_cli("warm, command line, quick", file, baseline, "quick"))
    groups = list(dict.fromkeys(row["group"] for row in rows))
    lines = []
    summary: dict[str, Any] = {}
    for group in groups:
        ms = [row["ms"] for row in rows if row["group"] == group and row["ok"]]
        failed = sum(row["group"] == group and not row["ok"] for row in rows)
        us = quantile([row["us"] for row in rows if row["group"] == group and row["us"]], 0.5)
        p50, p90 = quantile(ms, 0.5), quantile(ms, 0.9)
        summary[group] = {"runs": len(ms), "failed": failed, "p50_ms": p50, "p90_ms": p90, "kernel_us": us}
        lines.append([group, len(ms), failed, p50, p90, max(ms, default=None), us])
    text = table(["how", "runs", "failed", "p50 ms", "p90 ms", "max ms", "kernel us"], lines)
    failures = [f"{row['group']}: {row['said']}" for row in rows if not row["ok"]][:5]
    device = "cpu" if asked.dry else asked.device
    report(asked.out, "latency", device, summary | {"seconds": clock.elapsed}, rows, "\n".join([text, *failures]))


@contextmanager
def _places() -> Iterator[Path]:
    """A folder for everything, short as a socket's path must be; the environment is put back, the brokers end idle."""
    before = dict(os.environ)
    home = Path(tempfile.mkdtemp(prefix="kf-"))
    try:
        yield home
    finally:
        os.environ.clear()
        os.environ.update(before)
        time.sleep(3.5)  # the last broker's idle time: its folder goes with it
        shutil.rmtree(home, ignore_errors=True)


def _use(home: Path) -> None:
    """Make this and what it starts use a store, caches and a broker of their own, all empty."""
    for name in ("run", "cache", "cupy"):
        (home / name).mkdir(parents=True, mode=0o700)
    os.environ |= {
        "KFORECAST_DB": str(home / "kforecast.db"),
        "KFORECAST_RUNTIME_DIR": str(home / "run"),
        "KFORECAST_CACHE_DIR": str(home / "cache"),
        "CUPY_CACHE_DIR": str(home / "cupy"),
        "KFORECAST_BROKER_IDLE_S": "3",
    }


def _files(home: Path, language: str, count: int) -> Iterator[Path]:
    """Different kernels of one small inline task."""
    shutil.copy(EXHIBITS / "cuda" / "vector_add.py", home / "vector_add.py")
    geometry = 'grid = ["cdiv(N, 256)"]\nblock = [256]\n' if language == "cuda" else ""
    for variant in range(count):
        path = home / f"vector_add_v{variant}.{'cu' if language == 'cuda' else 'c'}"
        body = _CUDA if language == "cuda" else _C
        path.write_text(_HEADER.format(geometry=geometry, variant=variant) + body)
        yield path


def _cold(home: Path, number: int, file: Path, baseline: Path) -> dict[str, Any]:
    _use(home / f"cold{number}")
    # The default effort, as typed; quick as well, since most of a normal measurement is sampling.
    effort: Effort = "normal" if number == 0 else "quick"
    return _cli(f"cold, command line, {effort}", file, baseline, effort)


def _cli(group: str, file: Path, baseline: Path, effort: Effort) -> dict[str, Any]:
    command = [sys.executable, "-m", "kforecast", "measure", str(file), "-b", str(baseline), "--effort", effort]
    begin = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", timeout=120)
    ms = 1e3 * (time.monotonic() - begin)
    said = "" if ran.returncode == 0 else (ran.stdout + ran.stderr)[-500:]
    return {"group": group, "ms": ms, "ok": ran.returncode == 0, "us": None, "said": said}


def _call(group: str, store: Store, file: Path, baseline: Path, effort: Effort) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        found = measure(str(file), baseline=str(baseline), effort=effort, store=store)
    except KforecastError as error:
        return {"group": group, "ms": 1e3 * (time.monotonic() - begin), "ok": False, "us": None, "said": str(error)}
    ms = 1e3 * (time.monotonic() - begin)
    right = found.verdict == "ok"
    return {"group": group, "ms": ms, "ok": right, "us": found.time_us, "said": "" if right else str(found)[:300]}


if __name__ == "__main__":
    main()
