"""`replay:FILE`: any export of measured kernels as a device. Recorded results with recorded noise, in virtual time.

A kernel's time on this device is its newest believed recorded time; a measurement of it against another is the ratio of
the two times, blurred by the recorded noise, drawn from the search's seed: the same seed sees the same noise. A kernel
that was not recorded is `unsupported`. GPU seconds are the recorded ones.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...store.errors import InputError
from ...store.exchange import ORIGIN
from ...store.models import Forecast, Kernel, Measurement, Task
from .bench import Job, Outcome

PREFIX = "replay:"
_LEAST_SD = 0.003
"""Noise in octaves of a recorded measurement that says nothing of its own."""
_EFFORT_NOISE = {"quick": 1.0, "normal": 0.5, "claim": 0.25}


@dataclass(frozen=True)
class Recorded:
    """What is recorded of one kernel: its newest believed measurement. sd: noise of log2 time, in octaves."""

    kernel: Kernel
    measurement: Measurement
    sd: float

    @property
    def ok(self) -> bool:
        return self.measurement.verdict == "ok" and self.measurement.time_us is not None


@dataclass(frozen=True)
class Pool:
    """The recorded kernels of an export. `parents`: recorded origins, child's kernel id to parent's; `ideas`: what made
    a kernel of its parent, and the kind of idea."""

    path: Path
    tasks: dict[str, Task]
    recorded: dict[str, Recorded]
    parents: dict[str, str]
    forecasts: tuple[Forecast, ...] = ()
    ideas: dict[str, tuple[str, str]] = field(default_factory=dict)

    def of_task(self, task_id: str) -> list[Recorded]:
        """The recorded kernels of one task, by id."""
        return self._by_task.get(task_id, [])

    @cached_property
    def _by_task(self) -> dict[str, list[Recorded]]:
        found: dict[str, list[Recorded]] = {}
        for id_ in sorted(self.recorded):
            found.setdefault(self.recorded[id_].kernel.task_id, []).append(self.recorded[id_])
        return found

    def root(self, task_id: str) -> Recorded | None:
        """The kernel that the others come from: a recorded parent without a parent of its own, else what most were
        compared with, else one that is called a seed, else the slowest right one."""
        right = [one for one in self.of_task(task_id) if one.ok]
        ids = {one.kernel.id for one in right}
        origins = [one for one in right if one.kernel.id in set(self.parents.values()) - self.parents.keys()]
        bases = [one.measurement.baseline_id for one in self.of_task(task_id) if one.measurement.baseline_id in ids]
        common = max(sorted(set(bases), key=str), key=bases.count, default=None)
        named = [one for one in right if one.kernel.id == common or (common is None and "seed" in one.kernel.name)]
        slowest = sorted(right, key=lambda one: -(one.measurement.time_us or 0.0))
        return next(iter([*origins, *named, *slowest]), None)

    def best(self, task_id: str) -> Recorded | None:
        """The fastest right kernel of a task."""
        right = [one for one in self.of_task(task_id) if one.ok]
        return min(right, key=lambda one: (one.measurement.time_us or math.inf, one.kernel.id), default=None)


def is_replay(device: str) -> bool:
    """Whether a device's name is that of a replay."""
    return device.startswith(PREFIX)


def with_whole_path(device: str) -> str:
    """`replay:FILE` with the file's absolute path: a search's worker, and whoever resumes it, are somewhere else."""
    return f"{PREFIX}{Path(device.removeprefix(PREFIX)).expanduser().resolve()}"


def pool_of(device: str) -> Pool:
    """The pool of `replay:FILE`. Raises InputError for a file that is not there or no export."""
    path = Path(device.removeprefix(PREFIX)).expanduser().resolve()
    if not path.is_file():
        raise InputError(
            "there is no such file to replay", value=path, next_step="Give an export: .jsonl or .jsonl.gz."
        )
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read(path: Path, moment: int) -> Pool:
    tasks: dict[str, Task] = {}
    kernels: dict[str, Kernel] = {}
    newest: dict[str, Measurement] = {}
    parents: dict[str, str] = {}
    forecasts: list[Forecast] = []
    ideas: dict[str, tuple[str, str]] = {}
    for place, kind, noun in _lines(path):
        try:
            if kind == "task":
                task = Task.model_validate(noun)
                tasks[task.id] = task
            elif kind == "kernel":
                kernel = Kernel.model_validate(noun)
                kernels[kernel.id] = kernel
            elif kind == "measurement":
                _keep_newest(newest, Measurement.model_validate(noun))
            elif kind == "forecast":
                forecasts.append(Forecast.model_validate(noun))
            elif kind == "search":
                of_node = {node["id"]: node["kernel_id"] for node in noun["nodes"]}
                for node in noun["nodes"]:
                    if node["parent_id"] is not None:
                        parents.setdefault(node["kernel_id"], of_node[node["parent_id"]])
            elif kind == ORIGIN:
                ideas[noun["kernel_id"]] = str(noun["idea"]), str(noun["tag"])
                if noun["parent_id"] is not None:
                    parents[noun["kernel_id"]] = noun["parent_id"]
        except (ValidationError, KeyError, TypeError) as error:
            what = f"a line is no {kind} ({str(error).splitlines()[0]})"
            raise InputError(what, value=place, next_step="Export the pool again.") from error
    known = {id_: found for id_, found in newest.items() if id_ in kernels}
    if not known:
        raise InputError("nothing measured is recorded in the file", value=path, next_step="Export measured kernels.")
    recorded = {id_: Recorded(kernels[id_], found, _noise(found)) for id_, found in known.items()}
    return Pool(path, tasks, recorded, parents, tuple(forecasts), ideas)


def _lines(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    open_ = gzip.open if path.suffix == ".gz" else open
    with open_(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                entry: dict[str, Any] = json.loads(line) if line.strip() else {"kind": "export"}
                noun: dict[str, Any] = entry.get("noun") or {}
                yield f"{path.name}:{number}", str(entry["kind"]), noun
            except (ValueError, KeyError, AttributeError) as error:
                step = "Give an export of `kforecast export`: .jsonl or .jsonl.gz."
                raise InputError(
                    "a line is no line of an export", value=f"{path.name}:{number}", next_step=step
                ) from error


def _keep_newest(newest: dict[str, Measurement], found: Measurement) -> None:
    before = newest.get(found.kernel_id)
    if found.quarantine is None and (before is None or before.created_at <= found.created_at):
        newest[found.kernel_id] = found


def _noise(found: Measurement) -> float:
    """Standard deviation of log2 time: from the ratio's 95% interval, else from the A/A noise in percent."""
    if found.log2_low is not None and found.log2_high is not None:
        return max(_LEAST_SD, (found.log2_high - found.log2_low) / 3.92)
    if found.noise_pct is not None:
        return max(_LEAST_SD, math.log2(1 + found.noise_pct / 100))
    return 4 * _LEAST_SD


class ReplayBench:
    """A recorded pool as a search's device."""

    virtual = True

    def __init__(self, pool: Pool, random_seed: int) -> None:
        self._pool = pool
        self._seed = random_seed

    async def measure(self, job: Job) -> Outcome:
        """The recorded result of a kernel, its noise drawn anew for this seed and effort."""
        found = self._pool.recorded.get(job.kernel_id)
        base = None if job.baseline_id is None else self._pool.recorded.get(job.baseline_id)
        if found is None or (job.baseline_id is not None and (base is None or not base.ok)):
            return Outcome("unsupported", detail="It is not recorded.")
        seconds = found.measurement.device_seconds
        if not found.ok:
            return Outcome(found.measurement.verdict, seconds=seconds, detail=found.measurement.reason[:300])
        sd = math.hypot(found.sd, 0.0 if base is None else base.sd) * _EFFORT_NOISE[job.effort]
        blur = sd * self._normal(job)
        time_us = (found.measurement.time_us or 0.0) * 2.0**-blur
        if base is None:
            return Outcome("ok", seconds=seconds, time_us=time_us)
        log2 = math.log2((base.measurement.time_us or 0.0) / (found.measurement.time_us or math.inf)) + blur
        return Outcome("ok", log2, log2 - 1.96 * sd, log2 + 1.96 * sd, seconds, time_us)

    def call_off(self, job: Job) -> None:
        """Nothing is ever in flight for long."""

    def close(self) -> None:
        """Nothing to let go of."""

    def _normal(self, job: Job) -> float:
        """A standard normal draw that follows from seed, pair and effort (Box and Muller)."""
        text = f"{self._seed}\n{job.kernel_id}\n{job.baseline_id}\n{job.effort}"
        digest = hashlib.sha256(text.encode()).digest()
        first, second = (int.from_bytes(digest[at : at + 8], "big") / 2**64 for at in (0, 8))
        return math.sqrt(-2 * math.log(1 - first)) * math.cos(2 * math.pi * second)
