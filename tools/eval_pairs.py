"""What forecasters are evaluated on: pairs of measured kernels, split into folds, each asked as a real question."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from ..store.errors import InputError
from ..store.identity import content_id
from ..store.models import Case, Facts, Kernel, Measurement, Task, Verdict
from ..surrogate.contract import Query, Sibling
from ..surrogate.contract import Side as QuerySide
from ..surrogate.learned.train import Sample
from ..surrogate.metrics.rows import Truth
from ..surrogate.paper_rows import PaperPair
from ..surrogate.siblings import choose
from .datasets import group_of, kind_of, sample_of

Split = Literal["family", "task", "random", "time"]
SPLITS: tuple[Split, ...] = get_args(Split)
_FAMILIES = {
    "matrix products": ("gemm_f32", "gemm_bf16", "gemv", "batched_gemm", "attention"),
    "rows": ("softmax_rows", "layernorm", "rmsnorm", "cross_entropy", "argmax_rows", "sum_all"),
    "one pass": ("vector_add", "bias_gelu", "transpose", "embedding"),
    "neighbours": ("stencil2d", "conv1d"),
    "running and counting": ("scan", "histogram"),
}


@dataclass(frozen=True)
class Row:
    """One measured kernel. group: within which times compare; times in microseconds."""

    kernel: Kernel
    task: Task
    group: str
    device: str
    device_kind: str
    verdict: Verdict
    time_us: float | None
    percent_of_floor: float | None
    baseline_id: str | None
    log2_speedup: float | None
    facts: Facts | None
    at: str
    sample: Sample | None = None
    log2_interval: tuple[float, float] | None = None
    """Of `log2_speedup`."""
    noise_pct: float | None = None
    repeats: Mapping[str, float] = field(default_factory=dict)
    """Times of the kernel's other measurements, microseconds; two kernels' times under one name compare."""

    @property
    def timed(self) -> bool:
        return self.verdict == "ok" and bool(self.time_us)

    @property
    def floor_us(self) -> float | None:
        known = self.time_us and self.percent_of_floor is not None
        return self.time_us * self.percent_of_floor / 100 if known else None  # type: ignore[operator]


@dataclass(frozen=True)
class Example:
    """One pair with its truth. log2_speedup: None where the candidate is not ok; log2_low, log2_high: what it may be
    given the noise of the measurements."""

    id: str
    baseline: Row
    candidate: Row
    log2_speedup: float | None
    log2_low: float | None = None
    log2_high: float | None = None

    @property
    def log2_again(self) -> float | None:
        """log2 S by other measurements of the two; None where they were not measured together again."""
        both = [name for name in self.candidate.repeats if name in self.baseline.repeats]
        return math.log2(self.baseline.repeats[both[0]] / self.candidate.repeats[both[0]]) if both else None

    @property
    def truth(self) -> Truth:
        """The pair as the metrics take it."""
        ok = self.candidate.verdict == "ok"
        names = self.candidate.task.name, self.baseline.kernel.id, self.candidate.kernel.id
        return Truth(*names, ok, self.log2_speedup, self.log2_again if ok else None)


@dataclass(frozen=True)
class Fold:
    """What a forecaster may train on, what it is tested on, and what counts as measured when it is asked."""

    name: str
    training: tuple[Row, ...]
    tested: tuple[Example, ...]
    measured: tuple[Row, ...]


def row_of(kernel: Kernel, task: Task, measurement: Measurement, repeats: Mapping[str, float] | None = None) -> Row:
    """A measured kernel out of a store. repeats: see `datasets.repeats`."""
    low, high = measurement.log2_low, measurement.log2_high
    return Row(
        kernel=kernel,
        task=task,
        group=group_of(measurement),
        device=measurement.device,
        device_kind=kind_of(measurement),
        verdict=measurement.verdict,
        time_us=measurement.time_us,
        percent_of_floor=measurement.percent_of_floor,
        baseline_id=measurement.baseline_id,
        log2_speedup=measurement.log2_speedup,
        facts=measurement.facts,
        at=measurement.created_at,
        sample=sample_of(kernel, measurement),
        log2_interval=None if low is None or high is None else (low, high),
        noise_pct=measurement.noise_pct,
        repeats=repeats or {},
    )


def paper_example(pair: PaperPair) -> Example:
    """A published pair; its two texts are all that is known of it."""
    task = Task(name=pair.task, tensors=(), reference="", checked=(Case(sizes={}),), timed={})

    def side(source: str, time_us: float) -> Row:
        return Row(
            kernel=pair.kernel(source), task=task, group=pair.task, device=pair.hardware, device_kind="cuda",
            verdict="ok", time_us=time_us, percent_of_floor=None, baseline_id=None, log2_speedup=None, facts=None,
            at="",
        )  # fmt: skip

    log2 = pair.log2_speedup
    return Example(pair.id, side(pair.anchor, 1.0), side(pair.candidate, 2.0**-log2), log2, log2, log2)


def examples(rows: Sequence[Row], *, per_task: int, seed: int) -> list[Example]:
    """Pairs within groups: the baseline uniform over the correct kernels, the candidate over the others, both orders.

    per_task: draws a group. Where the candidate is not ok there is no other order. Repeats are dropped.
    """
    found: dict[str, Example] = {}
    for name in sorted({row.group for row in rows}):
        members = sorted((row for row in rows if row.group == name), key=lambda row: row.kernel.id)
        timed = [row for row in members if row.timed]
        if not timed or len(members) < 2:
            continue
        rng = np.random.default_rng([seed, *hashlib.sha256(name.encode()).digest()[:8]])
        for _ in range(per_task):
            baseline = timed[rng.integers(len(timed))]
            others = [row for row in members if row.kernel.source_id != baseline.kernel.source_id]
            if not others:
                break
            candidate = others[rng.integers(len(others))]
            for one in (_example(baseline, candidate), _example(candidate, baseline)):
                if one is not None:
                    found.setdefault(one.id, one)
    return list(found.values())


def _example(baseline: Row, candidate: Row) -> Example | None:
    if not baseline.timed or (candidate.verdict == "ok" and not candidate.timed):
        return None
    name = content_id("e", {"group": baseline.group, "pair": [baseline.kernel.id, candidate.kernel.id]})
    if not candidate.timed:
        return Example(name, baseline, candidate, None)
    return Example(name, baseline, candidate, _log2(baseline, candidate), *_interval(baseline, candidate))


def _log2(baseline: Row, candidate: Row) -> float:
    """log2 S: measured where the two were measured against each other, else from their times."""
    for one, other, sign in ((candidate, baseline, 1.0), (baseline, candidate, -1.0)):
        if one.baseline_id == other.kernel.id and one.log2_speedup is not None:
            return sign * one.log2_speedup
    return math.log2((baseline.time_us or 1.0) / (candidate.time_us or 1.0))


def _interval(baseline: Row, candidate: Row) -> tuple[float, float]:
    """What log2 S may be: the interval of a measurement of one against the other, else `_log2` give or take the A/A
    noise of both, added in squares. (Of 1,446 pairs of `docs/results/h200_kernels.jsonl.gz` measured again on another
    GPU of the same model, 98% lie within that noise of both.)"""
    for one, other, sign in ((candidate, baseline, 1.0), (baseline, candidate, -1.0)):
        if one.baseline_id == other.kernel.id and one.log2_interval is not None:
            low, high = sorted(sign * edge for edge in one.log2_interval)
            return low, high
    log2 = _log2(baseline, candidate)
    width = math.log2(1 + math.hypot(baseline.noise_pct or 0.0, candidate.noise_pct or 0.0) / 100)
    return log2 - width, log2 + width


def folds(rows: Sequence[Row], pairs: Sequence[Example], split: Split, seed: int) -> Iterator[Fold]:
    """The folds of a split. `family` and `task` hold out one at a time, and take the held-out task's other kernels for
    measured; `random` holds out half of the kernels; `time` the half first measured last. Empty folds are left out.

    Raises InputError for a split that leaves nothing to train on.
    """
    if split in ("family", "task"):
        label: Callable[[Row], str] = _family if split == "family" else _task
        names = sorted({label(row) for row in rows})
        if len(names) < 2:
            step = "Use --split random, or measure kernels of other tasks."
            raise InputError(f"the rows are all of one {split}", value=names[0] if names else "none", next_step=step)
        for name in names:
            yield from _fold(name, rows, pairs, _has(label, name), within=True)
    elif split == "random":
        yield from _fold("random half", rows, pairs, lambda row: _coin(row, seed), within=False)
    else:
        first: dict[str, str] = {}
        for row in rows:
            first[row.kernel.source_id] = min(row.at, first.get(row.kernel.source_id, row.at))
        half = sorted(first.values())[len(first) // 2]
        earlier = tuple(row for row in rows if row.at < half)  # a repeat later on is neither trained on nor tested
        tested = tuple(pair for pair in pairs if first[pair.candidate.kernel.source_id] >= half)
        if tested:
            yield Fold("later half", earlier, tested, earlier)


def _fold(
    name: str, rows: Sequence[Row], pairs: Sequence[Example], held: Callable[[Row], bool], *, within: bool
) -> Iterator[Fold]:
    training = tuple(row for row in rows if not held(row))
    tested = tuple(pair for pair in pairs if held(pair.candidate))
    if tested:
        yield Fold(name, training, tested, tuple(row for row in rows if held(row)) if within else training)


def _has(label: Callable[[Row], str], name: str) -> Callable[[Row], bool]:
    return lambda row: label(row) == name


def _task(row: Row) -> str:
    return row.task.name


def _family(row: Row) -> str:
    return next((name for name, tasks in _FAMILIES.items() if row.task.name in tasks), row.task.name)


def _coin(row: Row, seed: int) -> bool:
    return hashlib.sha256(f"{seed} {row.kernel.source_id}".encode()).digest()[0] % 2 == 0


def query_of(example: Example, fold: Fold, *, measured: int, siblings: int, seed: int, device_line: str = "") -> Query:
    """The pair as it would be asked when `measured` other kernels of its group had been measured, the best `siblings`
    of which the brief shows."""
    base, own = example.baseline, {example.baseline.kernel.source_id, example.candidate.kernel.source_id}
    near = [row for row in fold.measured if row.group == base.group and row.kernel.source_id not in own]
    near.sort(key=lambda row: hashlib.sha256(f"{seed} {row.kernel.id}".encode()).digest())
    pool = [_sibling(row, base) for row in near[:measured]]
    return Query(
        task=base.task,
        device=base.device,
        device_kind=base.device_kind,
        device_line=device_line,
        baseline=QuerySide(kernel=base.kernel, facts=base.facts),
        baseline_us=base.time_us,
        floor_us=base.floor_us,
        candidates=(QuerySide(kernel=example.candidate.kernel, facts=example.candidate.facts),),
        siblings=choose(pool, base.kernel, [example.candidate.kernel], count=siblings) if siblings else (),
    )


def _sibling(row: Row, baseline: Row) -> Sibling:
    return Sibling(
        kernel=row.kernel,
        verdict=row.verdict,
        time_us=row.time_us if row.timed else None,
        log2_speedup=_log2(baseline, row) if row.timed else None,
        percent_of_floor=row.percent_of_floor,
        facts=row.facts,
    )
