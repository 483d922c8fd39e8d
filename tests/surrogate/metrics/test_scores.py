"""Every metric against an independent computation on random data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kforecast.store.bins import bin_of_log2
from kforecast.surrogate.contract import Reply
from kforecast.surrogate.metrics import scores
from kforecast.surrogate.metrics.calibration_error import ece, ece_bins, ece_faster, reliability
from kforecast.surrogate.metrics.controls import always_tie, base_rate, random_replies, shuffled
from kforecast.surrogate.metrics.ranking import (
    auroc,
    auroc_discovery,
    auroc_faster,
    recovery,
    remeasured,
    spearman,
    spearman_by_task,
)
from kforecast.surrogate.metrics.rows import Rows, Truth, rows_of
from kforecast.surrogate.metrics.selective import aurc, risk_coverage, selective_accuracy
from kforecast.surrogate.metrics.table import PAIR_METRICS, WHOLE_METRICS, resample, table


def truths(count: int, seed: int, tasks: int = 5) -> list[Truth]:
    rng = np.random.default_rng(seed)
    result = []
    for number in range(count):
        ok = bool(rng.random() < 0.8)
        task = f"t{number % tasks}"
        result.append(Truth(task, f"{task}b{number % 2}", f"k{number}", ok, float(rng.normal(0, 1)) if ok else None))
    return result


def random_rows(count: int = 200, seed: int = 0) -> Rows:
    return rows_of(truths(count, seed), random_replies(count, seed + 1))


def knowing_rows(count: int, seed: int = 0, noise: float = 0.4) -> Rows:
    """Forecasts centred near the truth."""
    rng = np.random.default_rng(seed)
    known = truths(count, seed)
    replies = []
    for truth in known:
        centre = (truth.log2_speedup or 0.0) + rng.normal(0, noise)
        p = (
            np.exp(-((np.array([-2.5, -1.5, -0.75, -0.25, 0.25, 0.75, 1.5, 2.5]) - centre) ** 2) / (2 * noise**2))
            + 1e-4
        )
        replies.append(Reply(p_correct=0.9 if truth.ok else 0.4, p_bins=tuple(map(float, p / p.sum()))))
    return rows_of(known, replies)


SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_of_bins_equal_a_loop(seed: int) -> None:
    rows = random_rows(seed=seed).timed
    right = near = 0
    half_brier, log, ranked = [], [], []
    for p, log2 in zip(rows.p_bins, rows.log2, strict=True):
        truth = bin_of_log2(float(log2)).number - 1
        best = max(range(8), key=lambda index: p[index])
        right += best == truth
        near += abs(best - truth) <= 1
        half_brier.append(sum((p[index] - (index == truth)) ** 2 for index in range(8)) / 2)
        ranked.append(sum((sum(p[: edge + 1]) - (truth <= edge)) ** 2 for edge in range(7)) / 7)
        log.append(-math.log(p[truth]))
    n = len(rows)
    assert scores.accuracy(rows) == pytest.approx(right / n)
    assert scores.off_by_one(rows) == pytest.approx(near / n)
    assert scores.brier(rows) == pytest.approx(sum(half_brier) / n)
    assert scores.rps(rows) == pytest.approx(sum(ranked) / n)
    assert scores.nll(rows) == pytest.approx(sum(log) / n)
    faster = [(p[4:].sum() > 0.5) == (log2 > 0) for p, log2 in zip(rows.p_bins, rows.log2, strict=True)]
    assert scores.direction(rows) == pytest.approx(np.mean(faster))


@pytest.mark.parametrize("seed", SEEDS)
def test_auroc_is_the_mann_whitney_statistic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score, positive = np.round(rng.normal(size=150), 1), rng.random(150) < 0.3
    expected = stats.mannwhitneyu(score[positive], score[~positive]).statistic / (positive.sum() * (~positive).sum())
    assert auroc(score, positive) == pytest.approx(expected)


def test_auroc_of_one_kind_is_unknown() -> None:
    assert math.isnan(auroc(np.array([0.1, 0.2]), np.array([True, True])))


@pytest.mark.parametrize("seed", SEEDS)
def test_auroc_of_faster_and_discovery_equal_pair_counts(seed: int) -> None:
    rows = random_rows(80, seed)

    def counted(score: list[float], positive: list[bool]) -> float:
        pairs = [(a > b) + (a == b) / 2 for a, x in zip(score, positive, strict=True) if x
                 for b, y in zip(score, positive, strict=True) if not y]  # fmt: skip
        return sum(pairs) / len(pairs)

    timed = rows.timed
    faster = counted([p[4:].sum() for p in timed.p_bins], [x > 0 for x in timed.log2])
    assert auroc_faster(rows) == pytest.approx(faster)
    twice = counted([c * p[6:].sum() for c, p in zip(rows.p_correct, rows.p_bins, strict=True)],
                    [bool(ok and x >= 1) for ok, x in zip(rows.ok, rows.log2, strict=True)])  # fmt: skip
    assert auroc_discovery(rows, 1.0) == pytest.approx(twice)


@pytest.mark.parametrize("seed", SEEDS)
def test_spearman_is_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = np.round(rng.normal(size=60), 1), np.round(rng.normal(size=60), 1)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_spearman_by_task_is_the_mean_over_tasks() -> None:
    rows = random_rows(100)
    timed = rows.timed
    middles = [-2.5, -1.5, -0.75, -0.25, 0.25, 0.75, 1.5, 2.5]
    each = [
        stats.spearmanr(timed.p_bins[timed.task == task] @ middles, timed.log2[timed.task == task]).statistic
        for task in sorted(set(timed.task))
    ]
    assert spearman_by_task(rows) == pytest.approx(np.mean(each))


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]), st.booleans()), min_size=1, max_size=120))
def test_reliability_keeps_every_row_once_and_equal_forecasts_together(rows: list[tuple[float, bool]]) -> None:
    p, happened = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    points = reliability(p, happened)
    assert sum(point.count for point in points) == len(rows)
    assert sum(point.count * point.happened for point in points) == pytest.approx(happened.sum())
    assert [point.said for point in points] == sorted(point.said for point in points)
    shuffled_order = np.random.default_rng(0).permutation(len(rows))
    assert ece(p[shuffled_order], happened[shuffled_order]) == pytest.approx(ece(p, happened))


def test_plain_ece_equals_a_loop_over_equal_slices() -> None:
    rng = np.random.default_rng(3)
    p = np.sort(rng.random(150))
    happened = rng.random(150) < p**2
    slices = [slice(10 * number, 10 * number + 10) for number in range(15)]
    expected = np.mean([abs(p[part].mean() - happened[part].mean()) for part in slices])
    assert ece(p, happened, debias=False) == pytest.approx(expected)


def test_debiasing_takes_away_what_chance_adds() -> None:
    rng = np.random.default_rng(4)
    plain, debiased = [], []
    for _ in range(200):
        p = rng.random(300)
        happened = rng.random(300) < p
        plain.append(ece(p, happened, debias=False))
        debiased.append(ece(p, happened))
    assert np.mean(debiased) < 0.65 * np.mean(plain)
    off = [ece(q, rng.random(3000) < q**2) for q in (rng.random(3000) for _ in range(40))]
    assert np.mean(off) == pytest.approx(1 / 6, abs=0.01)  # E|q - q²| of the uniform


def test_the_two_calibration_errors_of_a_knowing_forecaster_are_small() -> None:
    rows = knowing_rows(2000)
    assert ece_faster(rows) < 0.05
    assert ece_bins(rows) < 0.2


@pytest.mark.parametrize("seed", SEEDS)
def test_risk_coverage_and_its_area_equal_a_loop(seed: int) -> None:
    rows = random_rows(100, seed)
    answers = []
    for c, p, ok, log2 in zip(rows.p_correct, rows.p_bins, rows.ok, rows.log2, strict=True):
        wins = c * p[4:].sum()
        answers.append((max(wins, 1 - wins), (wins > 0.5) != bool(ok and log2 > 0)))
    answers.sort(key=lambda answer: -answer[0])
    risks = [sum(wrong for _, wrong in answers[:k]) / k for k in range(1, 101)]
    coverage, risk = risk_coverage(rows)
    assert risk == pytest.approx(risks)
    assert coverage[-1] == 1
    assert aurc(rows) == pytest.approx(np.mean(risks))
    assert selective_accuracy(rows, 0.5) == pytest.approx(1 - risks[49])


def test_equally_sure_answers_share_their_risk_whatever_their_order() -> None:
    rows = rows_of(truths(50, 1), [always_tie()] * 50)
    order = np.random.default_rng(0).permutation(50)
    assert risk_coverage(rows)[1] == pytest.approx(risk_coverage(rows.take(order))[1])


@pytest.mark.parametrize("share", [0.05, 0.2, 1.0])
def test_recovery_equals_a_loop(share: float) -> None:
    rows = random_rows(120, 7)
    middles = np.array([-2.5, -1.5, -0.75, -0.25, 0.25, 0.75, 1.5, 2.5])
    logs = []
    for group in set(rows.group):
        inside = [index for index in range(120) if rows.group[index] == group]
        inside.sort(key=lambda index: -rows.p_correct[index] * 2.0 ** float(rows.p_bins[index] @ middles))
        known = [rows.log2[index] for index in inside if rows.ok[index]]
        top = [rows.log2[index] for index in inside[: max(1, math.ceil(share * len(inside)))] if rows.ok[index]]
        logs.append((max(top) if top else min(known)) - max(known))
    assert recovery(rows, share) == pytest.approx(2 ** np.mean(logs))


def test_recovery_of_everything_is_one_and_of_a_knowing_forecaster_is_near() -> None:
    rows = knowing_rows(300)
    assert recovery(rows, 1.0) == 1.0
    assert recovery(rows, 0.2) > 0.95 > recovery(random_rows(300), 0.05)


def test_remeasured_truth_replaces_the_rows_own() -> None:
    rows = knowing_rows(100)
    assert recovery(rows, 0.05, np.zeros(100)) == 1.0


def test_a_groups_five_fastest_count_as_measured_again() -> None:
    known = [Truth("t", "b", f"k{n}", True, n / 10, None if n == 9 else 5.0 - n) for n in range(10)]
    found = remeasured(rows_of([*known, Truth("t", "b", "bad", False, None)], [None] * 11))
    assert found[:10] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0, -1, -2, -3, 0.9])
    assert math.isnan(found[10])


def test_missing_replies_count_as_uniform() -> None:
    known = truths(60, 2)
    missing = rows_of(known, [None] * 60)
    said = rows_of(known, [Reply(p_correct=0.5, p_bins=(1 / 8,) * 8)] * 60)
    assert scores.crps(missing.timed) == scores.crps(said.timed)
    assert scores.brier(missing.timed) == pytest.approx(7 / 16)
    assert scores.direction(missing.timed) == 0.5
    assert table(missing, draws=0).missing == 60


def test_close_pairs_are_within_a_factor_of_two() -> None:
    close = random_rows().close
    assert 0 < len(close) < len(random_rows().timed)
    assert (np.abs(close.log2) < 1).all()


def test_shuffled_labels_score_no_better_than_the_base_rate() -> None:
    rows = knowing_rows(600)
    known = [Truth(str(t), "b", "k", bool(o), None if np.isnan(x) else float(x)) for t, o, x in
             zip(rows.task, rows.ok, rows.log2, strict=True)]  # fmt: skip
    base = rows_of(known, [base_rate(known)] * len(known))
    lost = shuffled(rows, 5)
    assert sorted(lost.log2[lost.ok]) == sorted(rows.log2[rows.ok])
    assert scores.crps(rows.timed) < 0.5 * scores.crps(base.timed)
    assert scores.crps(lost.timed) >= scores.crps(base.timed)
    assert abs(spearman_by_task(lost)) < 0.15 and abs(auroc_faster(lost) - 0.5) < 0.1


def test_the_base_rate_counts_bins_and_correct_kernels() -> None:
    reply = base_rate(
        [Truth("t", "b", "k", True, 0.2), Truth("t", "b", "k", True, 0.3), Truth("t", "b", "k", False, None)]
    )
    assert reply.p_bins[4] == pytest.approx((2 + 1 / 8) / 3)
    assert reply.p_correct == pytest.approx(2.5 / 4)
    assert sum(base_rate([]).p_bins) == pytest.approx(1)


def test_always_bin_4_is_right_as_often_as_bin_4_comes_up() -> None:
    rows = rows_of(truths(100, 3), [always_tie()] * 100).timed
    assert scores.accuracy(rows) == pytest.approx(np.mean([bin_of_log2(float(x)).number == 4 for x in rows.log2]))


def test_the_table_has_every_metric_and_intervals_that_hold_the_value() -> None:
    result = table(knowing_rows(150), draws=30)
    assert set(result.whole) == set(PAIR_METRICS) | set(WHOLE_METRICS)
    assert set(result.close) == set(PAIR_METRICS)
    assert result.whole["crps"].low < result.whole["crps"].value < result.whole["crps"].high
    assert result == table(knowing_rows(150), draws=30)


def test_the_table_of_nothing_is_unknown_not_zero() -> None:
    result = table(rows_of([], []), draws=5)
    assert result.rows == 0
    assert all(math.isnan(value.value) for value in result.whole.values())


def test_a_resample_takes_whole_tasks() -> None:
    rows = random_rows(100)
    sample = resample(rows, np.random.default_rng(0))
    assert len(sample) == 100
    assert len(set(sample.task)) == 5
    sizes = [int((sample.task == task).sum()) for task in set(sample.task)]
    assert sizes == [20] * 5


def test_the_interval_over_tasks_covers_the_mean_of_task_means() -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for draw in range(40):
        effects = rng.normal(0, 0.4, 20)
        known = [
            Truth(f"t{t}", "b", f"k{t}{i}", True, float(effects[t] + rng.normal(0, 0.1)))
            for t in range(20)
            for i in range(4)
        ]
        rows = rows_of(known, [always_tie()] * len(known))
        samples = [float(resample(rows, np.random.default_rng([draw, s])).log2.mean()) for s in range(100)]
        low, high = np.quantile(samples, [0.025, 0.975])
        hits += low <= 0 <= high
    assert hits >= 32  # 95% nominal of 40; fewer than 32 has probability under 0.1%


def test_a_bin_called_impossible_costs_much_but_not_everything() -> None:
    rows = rows_of([Truth("t", "b", "k", True, 1.5)], [always_tie()])
    assert scores.nll(rows) == pytest.approx(-math.log(1e-6))


def test_an_exact_tie_is_never_wrong() -> None:
    replies = [Reply(p_correct=1.0, p_bins=tuple(np.eye(8)[index])) for index in (2, 6)]
    rows = rows_of([Truth("t", "b", f"k{n}", True, 0.0) for n in range(2)], replies)
    assert aurc(rows) == 0.0
    assert scores.direction(rows) == 1.0
