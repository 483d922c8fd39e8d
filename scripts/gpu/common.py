"""What the scripts here share: options, one service to measure with, the fingerprint of the run, tables and results.

Every script takes `--out DIR` (one JSON file goes there), `--seconds N` (no new measurement begins after
that) and `--dry` (C kernels on the cpu device: exercises the script where there is no GPU, its numbers mean nothing).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from kforecast.bench.broker import processes_alive
from kforecast.bench.broker.hands import Hands
from kforecast.bench.broker.payload import MeasurePayload
from kforecast.bench.devices.catalogue import device_kind
from kforecast.bench.header.load import load_kernel
from kforecast.bench.lane import Lane
from kforecast.bench.tasks.builtin import builtin_kernel, builtin_task
from kforecast.bench.tasks.load import resolve_task
from kforecast.store import measurements, requests
from kforecast.store.clock import utc_now
from kforecast.store.database import Store
from kforecast.store.errors import KforecastError
from kforecast.store.models import Case, Effort, Kernel, Measurement, Sizes, Task
from kforecast.tools.kernels import Named, remember, stamp

ROOT = Path(__file__).resolve().parents[2]
EXHIBITS = ROOT / "tests" / "exhibits"

SLOW_SEEDS = ("attention", "gemm_bf16", "histogram", "gemm_f32")
"""Tasks whose seed kernel takes milliseconds a call on a large GPU: no sensible baseline."""

LONG_AXIS = {"embedding": "T"}
"""The size along which a task grows, where it is not the first: more lookups, not a larger table."""

SHORT: dict[str, Sizes] = {
    "vector_add": {"N": 65536},
    "bias_gelu": {"R": 64, "C": 512},
    "softmax_rows": {"R": 64, "C": 1024},
    "layernorm": {"R": 64, "C": 1024},
    "rmsnorm": {"R": 64, "C": 1024},
    "argmax_rows": {"R": 64, "C": 1024},
    "transpose": {"R": 256, "C": 256},
    "gemv": {"M": 256, "K": 512},
    "stencil2d": {"H": 256, "W": 256},
    "embedding": {"V": 4096, "D": 64, "T": 1024},
}
"""Sizes at which built-in tasks take a few microseconds."""


def options(description: str | None, *, seconds: float) -> argparse.ArgumentParser:
    """The options that every script has; `seconds`: the default bound on its time."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "build/gpu")))
    parser.add_argument("--seconds", type=float, default=seconds, help=f"begin nothing new after this ({seconds:g})")
    parser.add_argument("--dry", action="store_true", help="C kernels on the cpu device, to try the script itself")
    parser.add_argument("--device", default="cuda:0")
    return parser


class Clock:
    """The script's time: since when it runs, and whether it may begin something new."""

    def __init__(self, seconds: float) -> None:
        self.begin = time.monotonic()
        self._seconds = seconds

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.begin

    @property
    def over(self) -> bool:
        return self.elapsed >= self._seconds


class Bench:
    """One store, one device, a broker's hands for it. Measures as a broker does, and says what went wrong instead of
    raising.

    hands: how many measure at once; any number of threads may call `measure`.
    """

    def __init__(self, device: str, *, hands: int = 1) -> None:
        self.device = device
        self.kind = device_kind(device)
        self.language: Literal["c", "cuda"] = "cuda" if self.kind == "cuda" else "c"
        self.store = Store.open()
        self._owner = processes_alive.owner_name("script")
        self._work = threading.Event()
        self.hands = Hands(self.store, device, self._owner, hands, on_hand=self._work.set)
        self.service = self.hands.first
        self._closed = False
        self._ends: dict[str, Future[None]] = {}
        # As long as the bench: the device's helper processes are killed with the thread that started them.
        self._workers = [threading.Thread(target=self._worker, daemon=True) for _ in range(hands)]
        for worker in self._workers:
            worker.start()

    @property
    def lane(self) -> Lane:
        """The device's lane, opened if need be."""
        return self.service._open()

    def measure(
        self,
        candidate: Named,
        baseline: Named | None = None,
        *,
        effort: Effort = "quick",
        deadline_s: float = 3.0,
        cap_s: float | None = None,
    ) -> Measurement | str:
        """The stored measurement; or, where there is none, why."""
        try:
            remember(self.store, [candidate, *([baseline] if baseline else [])])
            payload = MeasurePayload(
                kernel_id=candidate.kernel.id,
                baseline_id=None if baseline is None else baseline.kernel.id,
                effort=effort,
                call_deadline_s=deadline_s,
                time_cap_s=cap_s,
            )
            asked = requests.enqueue(
                self.store, device=self.device, payload=payload.model_dump(mode="json"), client=self._owner
            )
            end = self._ends.setdefault(asked.id, Future())
            self._work.set()
            end.result()
            del self._ends[asked.id]
            ended = requests.get(self.store, asked.id)
            assert ended is not None
            found = None if ended.result_id is None else measurements.get(self.store, ended.result_id)
            return found or f"{ended.state}: {ended.error}"
        except Exception as error:  # noqa: BLE001  one kernel must not end a run that a machine was started for
            traceback.print_exc(file=sys.stderr)
            self.close_device()
            return f"{type(error).__name__}: {error}"

    def _worker(self) -> None:
        while not self._closed:
            self._work.clear()
            try:
                begun = self.hands.next()
            except KforecastError as error:
                for end in list(self._ends.values()):
                    if not end.done():
                        end.set_exception(error)
                begun = None
            if begun is None:
                self._work.wait(1.0)
                continue
            self._work.set()  # there may be more, for other threads that wait
            request, hand = begun
            end = self._ends.setdefault(request.id, Future())
            try:
                self.hands.work_off(request, hand)
            except Exception as error:  # noqa: BLE001  whoever waits is told
                end.set_exception(error)
            else:
                end.set_result(None)

    def compile_ahead(self, kernel: Kernel) -> None:
        """Compile a kernel on another core while others are measured."""
        _ = self.lane
        assert self.service._ahead is not None, "an open lane has one"
        self.service._ahead.ask(kernel)

    def fresh_launcher(self) -> None:
        """Measure on in a launcher process that has run nothing yet."""
        if self.kind == "cuda":
            lane: Any = self.lane
            try:
                lane.launcher()  # a lane that was just opened has none to replace yet
                lane.fresh_launcher()
            except KforecastError as error:
                say(f"no fresh launcher: {error}")
                self.close_device()

    def close_device(self) -> None:
        """End the helper processes of the device; the next measurement starts new ones."""
        self.service.close()

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._work.set()
        for worker in self._workers:
            worker.join()
        self.hands.close()
        self.store.close()


def load(source: Path | str, *, task: Task | None = None, settings: Sizes | None = None, called: str = "") -> Named:
    """A kernel of a path or source text, with the toolchain in its id; `task` replaces the one its header names."""
    loaded = load_kernel(source, resolve_task=resolve_task, task=task, override=task is not None, settings=settings)
    return Named(stamp(loaded.kernel), loaded.task, called or str(source), loaded.warnings)


def shipped(bench: Bench, task: str, role: Literal["seed", "tuned"], *, short: bool = False, times: int = 1) -> Named:
    """A built-in task's kernel; `short`: on sizes at which it takes a few microseconds; `times`: on cases so many times
    as large.
    """
    path = builtin_kernel(task, bench.language, role)
    assert path is not None, f"{task} has no {role} kernel"
    called = f"{task}/{role}" + ("/short" if short else "")
    other = shortened(task, bench.kind) if short else enlarged(task, bench.kind, times) if times > 1 else None
    return load(path, task=other, called=called)


def shortened(name: str, kind: str) -> Task:
    """A built-in task with one small timed case."""
    task = builtin_task(name)
    return task.model_copy(update={"timed": {kind: (Case(sizes=SHORT[name]),)}})


def enlarged(name: str, kind: str, times: int) -> Task:
    """A built-in task with timed cases `times` as long along their first size."""
    task = builtin_task(name)
    cases = []
    for case in task.timed_on(kind):
        first = LONG_AXIS.get(name, next(iter(case.sizes)))
        cases.append(case.model_copy(update={"sizes": {**case.sizes, first: times * case.sizes[first]}}))
    return task.model_copy(update={"timed": {kind: tuple(cases)}})


def fingerprint(device: str) -> dict[str, Any]:
    """When and on what this ran: date, commit, device, driver, versions."""
    found: dict[str, Any] = {
        "date": utc_now(),
        "commit": os.environ.get("KFORECAST_COMMIT") or _commit(),
        "device": device,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {name: version for name in _PACKAGES if (version := _version(name))},
    }
    if device_kind(device) == "cuda":
        from kforecast.bench.devices.catalogue import ordinal_of
        from kforecast.bench.devices.cuda.monitor import Monitor
        from kforecast.bench.languages.cuda.toolchain import find_toolchain

        found |= Monitor(ordinal_of(device)).describe()
        found["compiler"] = find_toolchain().identity
    return found


_PACKAGES = ("kforecast", "numpy", "cupy-cuda13x", "cuda-bindings", "nvidia-ml-py", "pydantic", "kernel-tuner")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    answer = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else "unknown"


def report(
    out: Path, name: str, device: str, summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], text: str
) -> None:
    """Write `name.json` under `out`, one file a script, and print the table, which comes last."""
    out.mkdir(parents=True, exist_ok=True)
    found = {"script": name, **fingerprint(device), "summary": summary, "table": text.splitlines(), "rows": rows}
    (out / f"{name}.json").write_text(json.dumps(found, indent=1, default=str) + "\n")
    print(text)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns of text, numbers to the right."""
    cells = [list(columns), *([_text(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    right = [all(_is_number(row[i]) for row in cells[1:]) for i in range(len(columns))]
    lines = []
    for row in cells:
        parts = [text.rjust(w) if r else text.ljust(w) for text, w, r in zip(row, widths, right, strict=True)]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == "-"
    return True


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value below which this share of the values lies, by the nearest rank; None of nothing."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else None


def median(values: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return statistics.median(values) if values else None


def say(text: str) -> None:
    """Progress, to the log."""
    print(text, file=sys.stderr, flush=True)


__all__ = [
    "EXHIBITS",
    "ROOT",
    "SHORT",
    "SLOW_SEEDS",
    "Bench",
    "Clock",
    "KforecastError",
    "fingerprint",
    "load",
    "median",
    "options",
    "quantile",
    "report",
    "say",
    "shipped",
    "shortened",
    "table",
]
