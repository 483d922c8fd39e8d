"""Calibration and promise in an evaluation: fitted on some pairs, held to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..surrogate.calibration.fit import fit
from ..surrogate.calibration.pairs import Pair
from ..surrogate.calibration.promise import learn
from ..surrogate.contract import Query, Reply
from .eval_pairs import Example, Fold
from .eval_results import PromiseCheck

ALPHAS = (0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Asked:
    """One pair of one fold, as the question that every forecaster gets."""

    fold: Fold
    example: Example
    query: Query


def calibrated(asked: Sequence[Asked], replies: Sequence[Reply | None]) -> list[Reply | None] | None:
    """The replies under calibrations fitted elsewhere (see `_halves`); None where there is nothing to fit on."""
    result = list(replies)
    changed = False
    for fitted, applied in _halves(asked):
        pairs = [_pair(asked[index], reply) for index in fitted if (reply := replies[index]) is not None]
        calibration = fit(pairs)
        for index in applied:
            reply = replies[index]
            if reply is not None and calibration.state == "local":
                result[index] = calibration.apply(reply)
                changed = True
    return result if changed else None


def promises(asked: Sequence[Asked], replies: Sequence[Reply | None]) -> tuple[PromiseCheck, ...]:
    """The promise learned on some pairs and kept or broken on the others (see `_halves`)."""
    found = []
    for alpha in ALPHAS:
        answers = trusted = wrong = 0
        for fitted, applied in _halves(asked):
            promise = learn([_pair(asked[i], reply) for i in fitted if (reply := replies[i]) is not None], alpha)
            tested = [_pair(asked[i], reply) for i in applied if (reply := replies[i]) is not None]
            covered = [pair for pair in tested if promise.covers(pair.call.confidence)]
            answers, trusted = answers + len(applied), trusted + len(covered)
            wrong += sum(pair.wrong for pair in covered)
        found.append(PromiseCheck(alpha=alpha, answers=answers, trusted=trusted, wrong=wrong))
    return tuple(found)


def _pair(one: Asked, reply: Reply) -> Pair:
    example = one.example
    return Pair(
        kernel_id=example.id,  # each pair of the evaluation stands for itself
        p_correct=reply.p_correct,
        p_bins=reply.p_bins,
        ok=example.candidate.verdict == "ok",
        log2_speedup=example.log2_speedup,
        log2_low=example.log2_low,
        log2_high=example.log2_high,
        at=example.candidate.at,
        group=example.candidate.task.name,
    )


def _halves(asked: Sequence[Asked]) -> list[tuple[list[int], list[int]]]:
    """(fitted on, applied to) indices: each fold from all others; of a single fold each task from all other tasks; by
    time, the second half from the first."""
    if len({one.fold.name for one in asked}) > 1:
        labels = [one.fold.name for one in asked]
    elif asked[0].fold.name == "later half":
        order = sorted(range(len(asked)), key=lambda index: asked[index].example.candidate.at)
        return [(order[: len(order) // 2], order[len(order) // 2 :])]
    else:
        labels = [one.example.candidate.task.name for one in asked]
    return [
        (
            [index for index, label in enumerate(labels) if label != name],
            [index for index, label in enumerate(labels) if label == name],
        )
        for name in sorted(set(labels))
    ]
