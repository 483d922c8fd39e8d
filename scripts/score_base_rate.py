"""What `base-rate` is worth where `learned` steps aside, by how many kernels of the task were measured.

usage: python scripts/score_base_rate.py EXPORT [--pairs 5]

Pairs of measured kernels as `kforecast eval --split family` draws them, so many a task and device. CRPS in octaves of
S on close pairs (within a factor of two) and on all; how often the direction is right on close ones; how many S lie
within the 80% interval. The control is how often each bin came up in the other families.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import numpy as np

from kforecast.store import tasks
from kforecast.surrogate.backends.base_rate import TaskRate
from kforecast.surrogate.contract import Reply, Sibling
from kforecast.surrogate.metrics.controls import base_rate
from kforecast.surrogate.metrics.rows import Rows, rows_of
from kforecast.surrogate.metrics.scores import coverage80, crps, direction
from kforecast.tools.datasets import newest, opened
from kforecast.tools.eval_pairs import Example, Fold, Row, _example, _sibling, examples, folds, query_of, row_of

MEASURED = (0, 1, 3, 8, 20)


def rows_in(path: str) -> list[Row]:
    """The measured kernels of an export."""
    with opened(path) as store:
        found = [(kernel, one, tasks.get(store, kernel.task_id)) for kernel, one in newest(store)]
    return [row_of(kernel, task, one) for kernel, one, task in found if task is not None]


def siblings(example: Example, fold: Fold, count: int) -> list[Sibling]:
    """So many other kernels of the pair's task, at random, as measured against its baseline."""
    base, own = example.baseline, {example.baseline.kernel.source_id, example.candidate.kernel.source_id}
    near = [row for row in fold.measured if row.group == base.group and row.kernel.source_id not in own]
    near.sort(key=lambda row: hashlib.sha256(row.kernel.id.encode()).digest())
    found = []
    for row in near[:count]:
        pair = _example(base, row)
        ends = {} if pair is None else {"log2_low": pair.log2_low, "log2_high": pair.log2_high}
        found.append(_sibling(row, base).model_copy(update=ends))
    return found


def asked(rows: list[Row], per_task: int) -> list[tuple[Example, Fold]]:
    """The pairs, each with the fold that holds its family out."""
    pairs = examples(rows, per_task=per_task, seed=0)
    return [(example, fold) for fold in folds(rows, pairs, "family", 0) for example in fold.tested]


def replies(questions: list[tuple[Example, Fold]], count: int) -> list[Reply | None]:
    """What `base-rate` says with so many measured kernels."""
    return [
        TaskRate(siblings(example, fold, count))
        .forecast(query_of(example, fold, measured=0, siblings=0, seed=0))
        .replies[0]
        for example, fold in questions
    ]


def control(questions: list[tuple[Example, Fold]]) -> list[Reply | None]:
    """How often each bin came up in the other families."""
    every = {example.id: example for example, _ in questions}.values()
    held = {fold.name: {example.id for example in fold.tested} for _, fold in questions}
    known = {
        name: base_rate([example.truth for example in every if example.id not in ids]) for name, ids in held.items()
    }
    return [known[fold.name] for _, fold in questions]


def line(name: str, rows: Rows) -> str:
    """A line of the table."""
    close, whole = rows.close.timed, rows.timed
    shares = f"{direction(close):.0%} | {coverage80(whole):.0%}"
    return f"| {name} | {crps(close):.3f} | {crps(whole):.3f} | {shares} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("export", type=Path)
    parser.add_argument("--pairs", type=int, default=5, help="draws a task and device (5)")
    given = parser.parse_args()
    questions = asked(rows_in(str(given.export)), given.pairs)
    truths = [example.truth for example, _ in questions]
    print(f"{len(questions)} pairs of {len(np.unique([truth.task for truth in truths]))} tasks\n")
    print(
        "| kernels measured | CRPS, close | CRPS, all | direction right, close | in the 80% interval |\n|" + "---|" * 5
    )
    for count in MEASURED:
        print(line(str(count), rows_of(truths, replies(questions, count))), flush=True)
    print(line("control", rows_of(truths, control(questions))))


if __name__ == "__main__":
    main()
