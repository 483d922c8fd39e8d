"""Reading the paper's published rows: all kinds, binned from the raw speedup."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from kforecast.store.bins import bin_of_log2
from kforecast.store.errors import InputError
from kforecast.surrogate.paper_rows import read_pairs, read_predictions

EVAL = {
    "comparison_id": "c1", "pack": "trimul", "anchor_code": "import triton\n", "candidate_code": "import torch\n",
    "hardware": "NVIDIA A100-SXM4-80GB", "aggregated_speedup": 1.2, "true_bin": 4, "source_id": "s",
    "source_search": "x", "internal_experiment": "y",
}  # fmt: skip
_SHARED = {name: value for name, value in EVAL.items() if name not in ("comparison_id", "true_bin")}
TRAINING = {**_SHARED, "row_id": "r1", "relative_bin": 4, "pair_type": "seed"}
DISCOVERY = {
    "pair_id": "d1", "problem_id": "vgg", "benchmark_family": "kernelbench_l3", "parent_code": "a", "child_code": "b",
    "g_speedup": 0.5, "true_bin": 2, "hardware": "NVIDIA L40S", "parent_node_id": "p", "child_node_id": "c",
}  # fmt: skip


def written(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")
    return path


def test_all_three_kinds_of_pairs_are_read(tmp_path: Path) -> None:
    evaluation, training, discovery = read_pairs(written(tmp_path / "rows.jsonl", EVAL, TRAINING, DISCOVERY))
    assert (evaluation.id, evaluation.task, evaluation.hardware) == ("c1", "trimul", "NVIDIA A100-SXM4-80GB")
    assert (training.id, training.log2_speedup) == ("r1", evaluation.log2_speedup)
    assert (discovery.id, discovery.task, discovery.anchor, discovery.candidate) == ("d1", "vgg", "a", "b")
    assert discovery.log2_speedup == -1.0


@pytest.mark.parametrize("speedup", [0.26, 0.4, 0.6, 0.9, 1.0, 1.2, 1.8, 2.5, 5.0])
def test_the_bin_comes_from_the_raw_speedup_not_from_the_row(tmp_path: Path, speedup: float) -> None:
    theirs = min(8, max(1, math.floor(2 * math.log2(speedup)) + 4))
    row = {**EVAL, "aggregated_speedup": speedup, "true_bin": theirs}
    (pair,) = read_pairs(written(tmp_path / "rows.jsonl", row))
    ours = bin_of_log2(pair.truth.log2_speedup or 0.0).number
    assert ours == sum(speedup > edge for edge in (0.25, 0.5, 0.5**0.5, 1, 2**0.5, 2, 4)) + 1
    if speedup in (0.4, 0.6, 0.9, 1.2, 1.8, 2.5):
        assert ours == theirs + 1


def test_a_truth_is_correct_and_grouped_by_its_anchor(tmp_path: Path) -> None:
    one, other = read_pairs(written(tmp_path / "rows.jsonl", EVAL, {**EVAL, "comparison_id": "c2"}))
    assert one.truth.ok and one.truth.baseline_id == other.truth.baseline_id
    assert (one.kernel(one.anchor).language, one.kernel(one.candidate).language) == ("triton", "torch")


def prediction(**more: object) -> dict[str, object]:
    return {
        "comparison_id": "c1", "pack": "trimul", "surrogate_label": "m", "repeat": 0, "parse_failed": False,
        "bin_probabilities": [{"bin": 5, "p": 0.6}, {"bin": 6, "p": 0.3}], "reasoning": "r", **more,
    }  # fmt: skip


def test_published_forecasts_are_read_by_forecaster_and_pair(tmp_path: Path) -> None:
    path = written(
        tmp_path / "p.jsonl",
        prediction(),
        prediction(repeat=1, parse_failed=True, bin_probabilities=[]),
        prediction(surrogate_label="n", bin_probabilities=[{"bin": 1, "p": 0.2}]),
    )
    found = read_predictions(path)
    first, second = found["m"]["c1"]
    assert first is not None and first.p_bins[4] == pytest.approx(2 / 3) and first.raw_sum == pytest.approx(0.9)
    assert second is None
    assert found["n"]["c1"] == [None]  # sums to 0.2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**EVAL, "aggregated_speedup": 0.0}, "positive"),
        ({**EVAL, "aggregated_speedup": None}, "positive"),
        ({**EVAL, "aggregated_speedup": math.inf}, "positive"),
        ({"comparison_id": "c"}, "no pack"),
        ({"x": 1}, "none of the published kinds"),
        ([1], "no JSON object"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, row: object, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_pairs(written(tmp_path / "rows.jsonl", EVAL, row))
    assert "rows.jsonl:2" in str(caught.value)


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{nope\n")
    with pytest.raises(InputError, match="no JSON"):
        read_pairs(tmp_path / "rows.jsonl")


def test_a_forecast_for_a_ninth_bin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 to 8"):
        read_predictions(written(tmp_path / "p.jsonl", prediction(bin_probabilities=[{"bin": 9, "p": 1.0}])))
