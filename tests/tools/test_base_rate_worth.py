"""`base-rate` is worth more than the control wherever it stands in, held to the recorded H200 kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from kforecast.surrogate.metrics.rows import rows_of
from kforecast.surrogate.metrics.scores import coverage80, crps

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("score_base_rate", ROOT / "scripts" / "score_base_rate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_better_than_the_control_with_and_without_siblings(script: ModuleType) -> None:
    questions = script.asked(script.rows_in(str(ROOT / "docs" / "results" / "h200_kernels.jsonl.gz")), 4)
    truths = [example.truth for example, _ in questions]
    control = rows_of(truths, script.control(questions))
    scores = []
    for count in (0, 3, 12):
        found = rows_of(truths, script.replies(questions, count))
        scores.append(crps(found.close.timed))
        assert crps(found.close.timed) < 1.02 * crps(control.close.timed)
        assert crps(found.timed) < crps(control.timed)
        assert 0.75 < coverage80(found.timed) < 0.99
    assert scores[2] < scores[1] < scores[0], "what is measured teaches"
    assert scores[2] < 0.85 * crps(control.close.timed)
