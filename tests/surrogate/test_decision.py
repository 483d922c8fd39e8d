"""Trust, measure, drop, and the audit."""

from __future__ import annotations

import pytest

from kforecast.store.errors import InputError
from kforecast.store.models import Facts
from kforecast.surrogate.calibration.audit import audit_probability, drawn
from kforecast.surrogate.calibration.drift import Drift
from kforecast.surrogate.calibration.fit import Calibration
from kforecast.surrogate.calibration.promise import learn_from
from kforecast.surrogate.contract import Reply
from kforecast.surrogate.decision import decide

LOCAL = Calibration("local", (1.0, 0.0), (1.0, 0.0), 50)
NONE = Calibration()
HELD = learn_from([(0.92, False, 1.0)] * 60, 0.1)
NOT_YET = learn_from([(0.92, False, 1.0)] * 12, 0.1)
FASTER = Reply(p_correct=1.0, p_bins=(0, 0, 0, 0.03, 0.5, 0.47, 0, 0))
SLOWER = Reply(p_correct=1.0, p_bins=(0, 0.3, 0.4, 0.28, 0.02, 0, 0, 0))
HOPELESS = Reply(p_correct=0.02, p_bins=(0, 0, 0, 0.5, 0.5, 0, 0, 0))
DOUBTFUL = Reply(p_correct=0.9, p_bins=(0, 0, 0, 0.4, 0.6, 0, 0, 0))


def test_a_sure_answer_under_a_promise_is_trusted_with_its_numbers() -> None:
    decided = decide(FASTER, calibration=LOCAL, promise=HELD)
    assert (decided.kind, decided.answer) == ("trust", "faster")
    assert "60 verified answers" in decided.reason and "10%" in decided.reason
    assert decided.numbers["confidence"] == pytest.approx(0.97)
    assert decided.numbers["threshold"] == HELD.threshold
    assert decide(SLOWER, calibration=LOCAL, promise=HELD).answer == "slower"


def test_without_a_promise_it_says_how_many_pairs_are_missing() -> None:
    decided = decide(FASTER, calibration=LOCAL, promise=NOT_YET)
    assert (decided.kind, decided.answer) == ("measure", "unsure")
    assert "10 more verified answers" in decided.reason
    assert decided.numbers["missing_pairs"] == 10


def test_an_unsure_answer_is_measured() -> None:
    decided = decide(DOUBTFUL, calibration=LOCAL, promise=HELD)
    assert decided.kind == "measure" and "below" in decided.reason


def test_what_hardly_wins_is_dropped_only_once_there_is_a_calibration() -> None:
    assert decide(HOPELESS, calibration=LOCAL, promise=NOT_YET).kind == "drop"
    assert decide(HOPELESS, calibration=NONE, promise=NOT_YET).kind == "measure"


def test_what_does_not_compile_is_dropped_by_anyone() -> None:
    decided = decide(None, calibration=NONE, promise=NOT_YET, facts=Facts(ok=False, error="x.cu:3: no such name"))
    assert (decided.kind, decided.answer) == ("drop", "slower")
    assert "no such name" in decided.reason


def test_the_same_program_is_a_tie() -> None:
    decided = decide(FASTER, calibration=LOCAL, promise=HELD, same_program=True)
    assert (decided.kind, decided.answer) == ("drop", "unsure")


@pytest.mark.parametrize(
    ("reply", "more"),
    [
        (None, {}),
        (FASTER, {"not_trained": True}),
        (FASTER, {"drift": Drift(True, "fewer kernels turned out faster")}),
    ],
)
def test_whoever_gave_no_answer_is_untrained_or_has_drifted_is_not_trusted(
    reply: Reply | None, more: dict[str, object]
) -> None:
    decided = decide(reply, calibration=LOCAL, promise=HELD, **more)  # type: ignore[arg-type]
    assert (decided.kind, decided.answer) == ("measure", "unsure")


def test_calibration_that_turns_the_answer_round_defers() -> None:
    leaning = Calibration("local", (0.3, -3.0), (1.0, 0.0), 50)
    assert decide(FASTER, calibration=leaning, promise=HELD).kind != "trust"


def test_the_record_logs_the_audit() -> None:
    trusted = decide(FASTER, calibration=LOCAL, promise=HELD).record("f_1", seed="s", rate=0.25)
    assert (trusted.forecast_id, trusted.kind, trusted.audit_probability) == ("f_1", "trust", 0.25)
    assert trusted.audited == drawn(trusted.id, "s", 0.25)
    measured = decide(DOUBTFUL, calibration=LOCAL, promise=HELD).record("f_1", seed="s")
    assert measured.audit_probability == 1.0 and not measured.audited


def test_audits_happen_as_often_as_logged_and_hang_on_the_seed() -> None:
    draws = [drawn(f"d_{number}", "seed", 0.05) for number in range(20_000)]
    assert 0.045 < sum(draws) / len(draws) < 0.055
    assert draws[:2000] == [drawn(f"d_{number}", "seed", 0.05) for number in range(2000)]
    assert draws[:2000] != [drawn(f"d_{number}", "other", 0.05) for number in range(2000)]
    assert drawn("d", "s", 1.0)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="audit rate"):
        audit_probability("drop", rate)
