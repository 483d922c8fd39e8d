"""Evaluation on a store of made-up measurements: what is held out, what the scores say, replies from outside."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kforecast.app.main import run
from kforecast.store import measurements, tasks
from kforecast.store.bins import bin_of_log2
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.identity import new_id
from kforecast.store.models import Kernel
from kforecast.surrogate.backends.protocol import ForecasterError
from kforecast.surrogate.contract import Answer, Query, Reply
from kforecast.tools.backends import Chosen
from kforecast.tools.datasets import newest, repeats
from kforecast.tools.eval_held import Asked
from kforecast.tools.eval_pairs import SPLITS, Example, Row, Split, examples, folds, query_of, row_of
from kforecast.tools.eval_replies import batches, given_away
from kforecast.tools.evaluate import Settings, evaluate, export_prompts

Verify = Callable[..., object]
TASKS = ("softmax_rows", "gemv", "scan")
FAST = Settings(per_task=12, draws=0)


@pytest.fixture
def measured(verify: Verify, store: Store) -> Store:
    """Three tasks of 16 kernels that spread over two octaves, and two wrong ones each."""
    for number, task in enumerate(TASKS):
        for step in range(16):
            verify(1, start=100 * number + step, task=task, log2=-1 + 2 * step / 15)
        verify(2, start=100 * number + 20, task=task, log2=None)
    return store


def rows_of(store: Store) -> list[Row]:
    found = []
    for kernel, measurement in newest(store):
        task = tasks.get(store, kernel.task_id)
        assert task is not None
        found.append(row_of(kernel, task, measurement))
    return found


def pairs_of(store: Store) -> list[Example]:
    return examples(rows_of(store), per_task=12, seed=0)


def test_pairs_come_in_both_orders_and_do_not_cross_tasks(measured: Store) -> None:
    pairs = pairs_of(measured)
    truth = {(pair.baseline.kernel.id, pair.candidate.kernel.id): pair.log2_speedup for pair in pairs}
    assert {pair.candidate.task.name for pair in pairs} == set(TASKS)
    assert all(pair.baseline.group == pair.candidate.group for pair in pairs)
    assert any(log2 is None for log2 in truth.values())
    for (one, other), log2 in truth.items():
        if log2 is not None:
            back = truth[other, one]
            assert back is not None
            assert log2 + back == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("split", SPLITS)
def test_nothing_tested_was_trained_on(measured: Store, split: Split) -> None:
    rows, pairs = rows_of(measured), pairs_of(measured)
    found = list(folds(rows, pairs, split, 0))
    assert found
    for fold in found:
        trained = {row.kernel.id for row in fold.training}
        assert not any(pair.candidate.kernel.id in trained for pair in fold.tested)
        if split in ("family", "task"):
            assert not {row.task.name for row in fold.training} & {pair.candidate.task.name for pair in fold.tested}
        if split == "time":
            assert max(row.at for row in fold.training) < min(pair.candidate.at for pair in fold.tested)
        for pair in fold.tested:
            query = query_of(pair, fold, measured=20, siblings=8, seed=0)
            shown = {sibling.kernel.id for sibling in query.siblings}
            assert not shown & {pair.baseline.kernel.id, pair.candidate.kernel.id}
            assert len(shown) <= 8


def test_a_learned_forecaster_stands_beside_its_controls(measured: Store) -> None:
    result = evaluate(["learned"], settings=FAST)
    names = [one.name for one in result.forecasters]
    assert names == ["learned", "learned, calibrated", "base-rate", "random", "always-tie", "floor-only", "shuffled"]
    scores = {one.name: {name: number.value for name, number in one.scores.items()} for one in result.forecasters}
    assert scores["always-tie"]["direction"] == pytest.approx(0.5)
    assert (scores["learned"]["crps"] or 9) < (scores["random"]["crps"] or 0)
    assert (result.tasks, len(result.folds)) == (3, 3)
    learned = result.forecasters[0]
    assert (learned.missing, learned.stepped_aside, learned.usd) == (0, 0, 0.0)
    assert [check.answers for check in learned.promise] == [result.pairs] * 3


def test_learned_steps_aside_where_too_little_is_left_to_train_on(verify: Verify) -> None:
    for number, task in enumerate(TASKS[:2]):
        for step in range(6):
            verify(1, start=100 * number + step, task=task, log2=step / 5)
    result = evaluate(["learned"], settings=FAST)
    assert result.forecasters[0].stepped_aside == result.pairs


def test_replies_to_exported_prompts_are_scored_like_any_backend(measured: Store, tmp_path: Path) -> None:
    count = export_prompts(tmp_path / "out", settings=FAST)
    lines = [json.loads(line) for line in (tmp_path / "out" / "prompts.jsonl").read_text().splitlines()]
    assert len(lines) == count
    assert {tuple(line) for line in lines} == {("id", "batch", "messages")}
    assert [line["id"] for line in lines] == sorted(line["id"] for line in lines)
    truth = {pair.id: pair for pair in pairs_of(measured)}
    replies = tmp_path / "replies.jsonl"
    with replies.open("w") as file:
        for line in lines[1:]:  # the first one stays unanswered
            log2 = truth[line["id"]].log2_speedup
            right = 3 if log2 is None else bin_of_log2(log2).number - 1
            reply = {"p_correct": float(log2 is not None), "p_bins": [float(n == right) for n in range(8)]}
            file.write(json.dumps({"id": line["id"], "forecaster": "oracle", **reply}) + "\n")
    result = evaluate([], settings=FAST, replies=[replies])
    oracle = result.forecasters[0]
    assert (oracle.name, oracle.missing) == ("oracle", 1)
    assert (oracle.scores["accuracy"].value or 0) > 0.98
    assert oracle.scores["auroc_correct"].value == pytest.approx(1.0, abs=0.03)


def test_questions_of_one_batch_give_nothing_of_each_other_away(measured: Store) -> None:
    asked = [
        Asked(fold, pair, query_of(pair, fold, measured=20, siblings=3, seed=0))
        for fold in folds(rows_of(measured), pairs_of(measured), "task", 0)
        for pair in fold.tested
    ]
    numbers = batches(asked)
    assert set(numbers) == set(range(1, max(numbers) + 1))
    assert max(numbers) < len(asked) / 2
    assert not any(given_away(asked, [str(number) for number in numbers]))
    assert not any(given_away(asked, [None] * len(asked)))
    together = given_away(asked, ["all"] * len(asked))
    baselines = {one.example.baseline.kernel.id for one in asked}
    assert all(away for away, one in zip(together, asked, strict=True) if one.example.candidate.kernel.id in baselines)
    assert not all(together), "a kernel that is not ok has no time to tell"


def test_replies_that_others_of_their_batch_gave_away_are_scored_apart(measured: Store, tmp_path: Path) -> None:
    replies = tmp_path / "replies.jsonl"
    with replies.open("w") as file:
        for pair in pairs_of(measured):
            reply = {"p_correct": 0.9, "p_bins": [0.125] * 8, "batch": 7}
            file.write(json.dumps({"id": pair.id, "forecaster": "reader", **reply}) + "\n")
    result = evaluate([], settings=FAST, replies=[replies])
    whole, blind = (one for one in result.forecasters if one.name in ("reader", "reader, blind"))
    assert whole.pairs == result.pairs > blind.pairs > 0


@pytest.mark.parametrize("text", ["not json\n", "[]\n", '{"p_correct": 1}\n', '{"id": "e_other", "p_correct": 1}\n'])
def test_unfit_replies_are_refused(measured: Store, tmp_path: Path, text: str) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text(text)
    with pytest.raises(InputError):
        evaluate([], settings=FAST, replies=[path])


def test_published_pairs(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    with path.open("w") as file:
        for number in range(12):
            row = {
                "comparison_id": f"c{number}", "pack": f"p{number % 3}", "hardware": "H100",
                "anchor_code": f"import torch  # {number}", "candidate_code": f"import torch\nx = {number}",
                "aggregated_speedup": 0.5 + number / 8,
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")
    result = evaluate(["base-rate", "learned"], on=str(path), settings=FAST)
    assert (result.pairs, result.tasks) == (12, 3)
    assert result.forecasters[0].name == "base-rate"


def test_a_kernel_measured_again_is_new_only_once(measured: Store) -> None:
    """By time, a kernel that was known is no test when another device measures it later."""
    rows = rows_of(measured)
    later = [replace(row, group=f"{row.group} again", at=f"9{row.at[1:]}") for row in rows[: len(rows) // 2]]
    pairs = examples([*rows, *later], per_task=12, seed=0)
    (fold,) = folds([*rows, *later], pairs, "time", 0)
    trained = {row.kernel.id for row in fold.training}
    assert trained and fold.tested
    assert not trained & {pair.candidate.kernel.id for pair in fold.tested}
    assert max(row.at for row in fold.training) < min(pair.candidate.at for pair in fold.tested)


def number_of(kernel: Kernel) -> int:
    return int("".join(filter(str.isdigit, kernel.name)))


def test_a_second_measurement_gives_a_second_truth_and_noise_an_interval(verify: Verify, store: Store) -> None:
    verify(3)
    for kernel, measurement in newest(store):
        for number, (gpu, device_id, time_us) in enumerate(
            (("A", "GPU-1", 1.0), ("A", "GPU-2", 2.0), ("B", "GPU-3", 9.0))
        ):
            factor = 2.0 ** number_of(kernel) if device_id == "GPU-2" else 1.0
            again = {
                "id": new_id("m"), "device_id": device_id, "time_us": time_us * factor, "noise_pct": 3.0 + number,
                "environment": {"gpu": gpu}, "baseline_id": None, "log2_speedup": None, "log2_low": None,
                "log2_high": None,
            }  # fmt: skip
            measurements.save(store, measurement.model_copy(update=again))
    found = repeats(store)
    rows = [
        row_of(kernel, task, measurement, found.get(measurement.id))
        for kernel, measurement in newest(store)
        if (task := tasks.get(store, kernel.task_id)) is not None
    ]
    pairs = examples([row for row in rows if "GPU-1" in row.group], per_task=12, seed=0)
    assert len(pairs) >= 4
    for pair in pairs:
        steps = number_of(pair.baseline.kernel) - number_of(pair.candidate.kernel)
        assert pair.log2_speedup == 0.0
        assert pair.truth.log2_again == pytest.approx(steps)
        assert pair.log2_high == -(pair.log2_low or 0) == pytest.approx(math.log2(1 + 0.03 * 2**0.5))
    assert all(
        pair.truth.log2_again is None for pair in examples([r for r in rows if "GPU-3" in r.group], per_task=12, seed=0)
    )


def test_without_pairs_the_error_says_what_to_do(store: Store) -> None:
    with pytest.raises(InputError, match="no pairs"):
        evaluate(["learned"], settings=FAST)


def test_the_command_prints_tables_and_writes_plots(
    measured: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ["--pairs", "12", "--draws", "5"]
    assert run(["eval", "learned", *quick, "--svg", str(tmp_path / "plots")]) == 0
    page = capsys.readouterr().out
    for part in ("all pairs", "close pairs", "always-tie", "the promise", "learned, calibrated"):
        assert part in page
    assert max(map(len, page.splitlines())) <= 80
    for name in ("reliability.svg", "risk_coverage.svg"):
        drawn = ElementTree.parse(tmp_path / "plots" / name).getroot()
        words = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert "learned" in words
    assert run(["eval", "learned", *quick, "--plots"]) == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= 80
    chart = page[page.index("said across") :].splitlines()
    assert sum(line.count(".") - (".0 |" in line or ".5 |" in line) for line in chart[1:17]) > 30, "the diagonal"
    assert "  a  learned" in chart and sum("a" in line for line in chart[1:17]) >= 3
    assert run(["eval", "learned", *quick, "--split", "time", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["split"] == "time"
    assert run(["eval"]) == 2
    assert run(["eval", "learnt", *quick]) == 2
    assert "Did you mean learned" in capsys.readouterr().err


class Fake:
    """A model that answers some questions and then cannot be reached."""

    name = "litellm:openai/fake"

    def __init__(self, limit: int) -> None:
        self.asked = 0
        self._limit = limit
        self._lock = threading.Lock()

    def forecast(self, query: Query) -> Answer:
        with self._lock:
            self.asked += 1
            number = self.asked
        if number > self._limit:
            raise ForecasterError("it cannot be reached", next_step="Try again later.")
        return Answer(forecaster=self.name, replies=(Reply(p_correct=1, p_bins=(0.125,) * 8),), usd=0.01)


def test_replies_that_were_paid_for_are_kept_when_the_model_goes_away(
    measured: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = tmp_path / "replies.jsonl"
    fake = Fake(limit=10)
    monkeypatch.setattr("kforecast.tools.evaluate.choose_backend", lambda *_, **__: Chosen(fake))
    with pytest.raises(ForecasterError):
        evaluate([fake.name], settings=FAST, save=save)
    kept = len(save.read_text().splitlines())
    assert kept == 10
    again = Fake(limit=10_000)
    monkeypatch.setattr("kforecast.tools.evaluate.choose_backend", lambda *_, **__: Chosen(again))
    result = evaluate([again.name], settings=FAST, save=save)
    assert again.asked == result.pairs - kept
    assert result.forecasters[0].missing == 0
    assert result.forecasters[0].usd == pytest.approx(0.01 * again.asked)
