"""The use case `eval`: forecasters, and the controls beside them, on measured pairs whose outcome they never saw."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..store import tasks
from ..store.database import Store
from ..store.errors import InputError
from ..store.exchange import ROWS, read_lines
from ..store.models import Task
from ..surrogate import density
from ..surrogate.backends.base_rate import NAME as BASE_RATE
from ..surrogate.backends.base_rate import BaseRate
from ..surrogate.backends.learned import NAME as LEARNED
from ..surrogate.backends.learned import Learned
from ..surrogate.backends.protocol import Backend
from ..surrogate.contract import Query, Reply
from ..surrogate.learned.train import train
from ..surrogate.metrics.controls import always_tie, base_rate, random_replies, shuffled
from ..surrogate.metrics.rows import Rows, rows_of
from ..surrogate.paper_rows import read_pairs
from .backends import choose_backend
from .config import load_config
from .datasets import newest, opened, repeats
from .eval_held import Asked, calibrated, promises
from .eval_pairs import SPLITS, Example, Fold, Row, Split, examples, folds, paper_example, query_of, row_of
from .eval_replies import append_reply, given_away, read_replies, write_prompts
from .eval_results import EvalResult, PromiseCheck, Role, Scored, scored
from .places import Place

CONTROLS = (BASE_RATE, "random", "always-tie", "floor-only", "shuffled")
_AT_A_TIME = 8
_PAPER_FIELDS = frozenset({"aggregated_speedup", "g_speedup"})


@dataclass(frozen=True)
class Settings:
    """How to evaluate. per_task: draws of pairs a task; measured: kernels of the task taken for measured when a pair is
    asked; siblings: how many of those the brief shows; draws: bootstrap samples."""

    split: Split = "task"
    per_task: int = 40
    measured: int = 20
    siblings: int = 8
    seed: int = 0
    draws: int = 200
    device: str | None = None
    consent: bool = False
    max_usd: float | None = None
    """What all processes together may spend on models today; None: what is configured."""


@dataclass(frozen=True)
class _Given:
    """One forecaster's replies, what they cost (None: it does not say), and how often it stepped aside."""

    replies: list[Reply | None]
    usd: float | None = None
    aside: int = 0


def evaluate(
    backends: Sequence[str],
    *,
    on: str | None = None,
    settings: Settings | None = None,
    replies: Sequence[Path] = (),
    save: Path | None = None,
    on_progress: Callable[[str], None] = lambda text: None,
) -> EvalResult:
    """Score forecasters on measured pairs. `learned` is trained anew for each fold, on nothing of what it is tested on.

    backends: `learned`, `base-rate`, `litellm:<model>`. on: see `datasets.opened`, or a file of the paper's published
    pairs. replies: files of answers to the prompts of `export_prompts` with the same settings, scored beside the rest;
    where another question of a batch gave some away, `NAME, blind` is scored on the others.
    save: a file in which models' replies are kept as they come, so that nothing is paid for twice.
    Raises InputError where there are no pairs, ConsentNeeded for a hosted model, ForecasterError where one fails.
    """
    chosen = settings or Settings()
    rows, pairs = _data(on, chosen)
    asked = _questions(rows, pairs, chosen)
    truths = [one.example.truth for one in asked]
    known: dict[str, _Given] = {}
    for name in backends:
        on_progress(f"asking {name}")
        alone = name in (BASE_RATE, LEARNED)
        known[name] = _ask(name, asked, chosen) if alone else _ask_model(name, asked, chosen, save, on_progress)
    told: dict[str, list[bool]] = {}
    for path in replies:
        for name, given in read_replies(path, asked).items():
            known[name] = _Given(given.replies)
            told[name] = given_away(asked, given.batches)
    found: list[Scored] = []

    def score(name: str, role: Role, rows: Rows, given: _Given, promise: tuple[PromiseCheck, ...] = ()) -> None:
        on_progress(f"scoring {name}")
        one = scored(name, role, rows, draws=chosen.draws, seed=chosen.seed, usd=given.usd, promise=promise)
        found.append(one.model_copy(update={"stepped_aside": given.aside}))

    for name, answers in known.items():
        rows_told = rows_of(truths, answers.replies)
        score(name, "forecaster", rows_told, answers, promises(asked, answers.replies))
        better = calibrated(asked, answers.replies)
        if better is not None:
            score(f"{name}, calibrated", "calibrated", rows_of(truths, better), answers)
        if any(told.get(name, ())):
            blind = ~np.array(told[name])
            score(f"{name}, blind", "forecaster", rows_told.take(blind), answers)
            if better is not None:
                score(f"{name}, blind, calibrated", "calibrated", rows_of(truths, better).take(blind), answers)
    for name in CONTROLS:
        if name not in known and (control := _control(name, asked, known, chosen)) is not None:
            score(name, "control", control, _Given([], 0.0))
    names = sorted({one.fold.name for one in asked})
    count = len({truth.task for truth in truths})
    return EvalResult(
        summary=f"{len(asked)} pairs of {count} tasks, {len(names)} folds, split by {chosen.split}.",
        on=on or "the store",
        split=chosen.split,
        folds=tuple(names),
        tasks=count,
        kernels=len({row.kernel.id for row in rows}),
        pairs=len(asked),
        measured=chosen.measured,
        siblings=chosen.siblings,
        forecasters=tuple(found),
    )


def export_prompts(folder: Path, *, on: str | None = None, settings: Settings | None = None) -> int:
    """Write what a forecaster would see of each pair (see `eval_replies.write_prompts`); how many there are."""
    chosen = settings or Settings()
    asked = _questions(*_data(on, chosen), chosen)
    write_prompts(folder, asked)
    return len(asked)


def _data(on: str | None, settings: Settings) -> tuple[list[Row], list[Example]]:
    if settings.split not in SPLITS:
        step = f"Split by {', '.join(SPLITS)}."
        raise InputError("there is no such split", value=settings.split, next_step=step)
    if on is not None and _is_paper(Path(on)):
        pairs = [paper_example(pair) for pair in read_pairs(Path(on))]
        rows = [row for pair in pairs for row in (pair.baseline, pair.candidate)]
    else:
        with opened(on) as store:
            again = repeats(store, device=settings.device)
            rows = [
                row_of(kernel, task, measurement, again.get(measurement.id))
                for kernel, measurement in newest(store, device=settings.device)
                if (task := _task(store, kernel.task_id)) is not None
            ]
        pairs = examples(rows, per_task=settings.per_task, seed=settings.seed)
    if not pairs:
        step = "Measure several kernels of a task first, or name another store with --on."
        raise InputError("there are no pairs of measured kernels", value=on or "the store", next_step=step)
    return rows, pairs


def _task(store: Store, task_id: str) -> Task | None:
    return tasks.get(store, task_id)


def _is_paper(path: Path) -> bool:
    if not path.name.endswith(ROWS) or not path.is_file():
        return False
    first = next((line for line in read_lines(path) if line.strip()), b"")
    return any(f'"{name}"'.encode() in first for name in _PAPER_FIELDS)


def _questions(rows: Sequence[Row], pairs: Sequence[Example], settings: Settings) -> list[Asked]:
    asked = [
        Asked(fold, example, _query(example, fold, settings))
        for fold in folds(rows, pairs, settings.split, settings.seed)
        for example in fold.tested
    ]
    if not asked:
        step = "Use another split, or measure more kernels."
        raise InputError("the split leaves no pair to test on", value=settings.split, next_step=step)
    return asked


def _query(example: Example, fold: Fold, settings: Settings) -> Query:
    return query_of(example, fold, measured=settings.measured, siblings=settings.siblings, seed=settings.seed)


def _ask(name: str, asked: Sequence[Asked], settings: Settings) -> _Given:
    """The replies of a backend that is made anew for each fold, in the questions' order."""
    answers = []
    backend: Backend | None = None
    for number, one in enumerate(asked):
        if backend is None or one.fold is not asked[number - 1].fold:
            backend = _trained(name, one.fold, settings)
        answers.append(backend.forecast(one.query))
    return _Given([answer.replies[0] for answer in answers], 0.0, sum(answer.not_trained for answer in answers))


def _ask_model(
    name: str, asked: Sequence[Asked], settings: Settings, save: Path | None, on_progress: Callable[[str], None]
) -> _Given:
    """The replies of a language model, several asked at a time, each kept in `save` as it comes; those there already
    are not asked for again."""
    backend = _fixed(name, settings)
    replies: list[Reply | None] = [None] * len(asked)
    if save is not None and save.exists() and save.stat().st_size:
        kept = read_replies(save, asked).get(name)
        replies = replies if kept is None else kept.replies
    missing = [index for index, reply in enumerate(replies) if reply is None]
    costs: list[float | None] = []
    fault: BaseException | None = None
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        futures = {pool.submit(backend.forecast, asked[index].query): index for index in missing}
        for future in as_completed(futures):
            if future.cancelled():
                continue
            if (error := future.exception()) is not None:
                fault = fault or error  # what is in flight may still answer, and is paid for
                for other in futures:
                    other.cancel()
                continue
            answer, index = future.result(), futures[future]
            replies[index] = answer.replies[0]
            costs.append(answer.usd)
            if save is not None:
                append_reply(save, name, asked[index].example.id, answer.replies[0])
            on_progress(f"asking {name}: {len(costs)} of {len(missing)}")
    if fault is not None:
        raise fault
    return _Given(replies, None if None in costs else math.fsum(cost for cost in costs if cost is not None))


def _fixed(name: str, settings: Settings) -> Backend:
    with Store.open() as store:
        place = Place("cuda:0", "cuda")
        config = load_config()
        if settings.max_usd is not None:
            config = replace(config, max_usd=settings.max_usd)
        return choose_backend(store, name, place=place, languages=(), config=config, consent=settings.consent).backend


def _trained(name: str, fold: Fold, settings: Settings) -> Backend:
    """`learned` or `base-rate` from the fold's training rows alone."""
    rate = _rate(fold, settings)
    if name == BASE_RATE:
        return BaseRate(rate)
    samples = [row.sample for row in fold.training if row.sample is not None]
    try:
        return Learned(train(samples), rate)
    except InputError:  # too few to train on: it steps aside, and its scores say what that is worth
        return Learned(None, rate)


def _rate(fold: Fold, settings: Settings) -> Reply:
    return base_rate([pair.truth for pair in examples(fold.training, per_task=settings.per_task, seed=settings.seed)])


def _control(
    name: str,
    asked: Sequence[Asked],
    known: dict[str, _Given],
    settings: Settings,
) -> Rows | None:
    truths = [one.example.truth for one in asked]
    if name == "random":
        return rows_of(truths, random_replies(len(asked), settings.seed))
    if name == "always-tie":
        return rows_of(truths, [always_tie()] * len(asked))
    if name == "shuffled":
        first = next(iter(known.values()), None)
        return None if first is None else shuffled(rows_of(truths, first.replies), settings.seed)
    rates = {one.fold.name: one.fold for one in asked}
    replies = {fold_name: _rate(fold, settings) for fold_name, fold in rates.items()}
    if name == BASE_RATE:
        return rows_of(truths, [replies[one.fold.name] for one in asked])
    return rows_of(truths, [_below_floor(replies[one.fold.name], one.query) for one in asked])


def _below_floor(rate: Reply, query: Query) -> Reply:
    """The base rate without the bins that the floor rules out."""
    if not query.baseline_us or not query.floor_us:
        return rate
    most = math.log2(query.baseline_us / query.floor_us)
    kept = np.where(density.KNOTS[:-1] < max(most, density.KNOTS[1]), rate.p_bins, 0.0)
    return rate.model_copy(update={"p_bins": tuple(map(float, kept / kept.sum()))})
