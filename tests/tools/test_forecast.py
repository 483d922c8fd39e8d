"""Forecasts end to end: real C kernels, a real compiler, a real store, no broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kforecast.bench.tasks.builtin import builtin_kernel
from kforecast.store import forecasts, measurements
from kforecast.store.database import Store
from kforecast.store.errors import InputError
from kforecast.store.models import Forecast
from kforecast.tools.forecast import forecast, forecast_many
from kforecast.tools.forecast_results import ForecastResult
from kforecast.tools.measure import measure

Sources = dict[str, str]
Verify = Callable[..., list[Forecast]]
SURE = (0.0, 0.0, 0.0, 0.01, 0.3, 0.39, 0.2, 0.1)


def own(p_bins: tuple[float, ...] = SURE, forecaster: str = "fable", **more: Any) -> dict[str, Any]:
    return {"p_correct": 0.99, "p_bins": list(p_bins), "forecaster": forecaster, **more}


def one(candidate: str, sources: Sources, **more: Any) -> ForecastResult:
    result = forecast(candidate, baseline=sources["base"], **more)
    assert isinstance(result, ForecastResult)
    return result


def run(name: str, sources: Sources) -> Any:
    return measure(sources[name], baseline=sources["base"], effort="quick", use_broker=False)


def tokens(text: str) -> int:
    """A fifth more than cl100k_base counts in these answers: 3 digits, 6 letters or 2 marks are a token."""
    size = {"d": 3, "a": 6, "": 2}
    parts = re.findall(r"\d+|[A-Za-z]+|[^\sA-Za-z\d]+", text)
    return sum(-(-len(part) // size["d" if part[0].isdigit() else "a" if part[0].isalpha() else ""]) for part in parts)


def test_before_anything_is_measured_the_device_decides(sources: Sources, store: Store) -> None:
    result = one(sources["once"], sources)
    assert (result.decision, result.answer, result.backend) == ("measure", "unsure", "base-rate")
    assert result.calibration.state == "not_trained_for_this_device"
    assert result.compile is not None
    assert result.compile.ok
    assert result.already_measured is None
    assert "own={p_correct, p_bins, forecaster}" in result.next
    kept = forecasts.get(store, result.forecast_id or "")
    assert kept is not None
    assert (kept.kernel_id, kept.baseline_id) == (result.candidate_id, result.baseline_id)
    (decision,) = forecasts.decisions(store, kept.id)
    assert (decision.kind, decision.audit_probability) == ("measure", 1.0)


def test_measured_kernels_of_the_task_are_the_siblings_of_the_next_question(sources: Sources) -> None:
    measured = {name: run(name, sources) for name in ("once", "sum", "backwards")}
    result = one(sources["unrolled"], sources, detail="brief")
    assert result.brief is not None
    rows = [line for line in result.brief.splitlines() if re.match(r"s\d ", line)]
    assert len(rows) == 3
    for answer in measured.values():
        assert any(f"{answer.speedup:.3f}" in row for row in rows)
    assert "baseline: not measured" not in result.brief
    assert "x[i]" not in result.brief
    full = one(sources["unrolled"], sources, detail="full")
    assert full.brief is not None
    assert "y[i + 1] = 2 * x[i + 1];" in full.brief


def test_own_probabilities_are_kept_as_given_and_refused_once_the_pair_is_measured(
    sources: Sources, store: Store
) -> None:
    result = one(sources["once"], sources, own=own())
    assert (result.backend, result.decision) == ("agent:fable", "measure")
    assert "22 more verified answers" in result.reason
    kept = forecasts.get(store, result.forecast_id or "")
    assert kept is not None
    assert kept.p_bins == pytest.approx(SURE)
    found = run("once", sources)
    assert found.forecast_hit == (result.speedup_p10 <= found.speedup <= result.speedup_p90)
    with pytest.raises(InputError, match="measured already"):
        one(sources["once"], sources, own=own())
    again = one(sources["once"], sources)
    assert again.already_measured == found.measurement_id
    assert found.measurement_id in again.next


def test_a_quarantined_measurement_refuses_own_probabilities_too(sources: Sources, store: Store) -> None:
    found = run("once", sources)
    measurements.set_quarantine(store, found.measurement_id, "too fast")
    with pytest.raises(InputError, match="measured already"):
        one(sources["once"], sources, own=own())


def test_the_pair_is_known_once_both_sides_are_timed(sources: Sources) -> None:
    measure(sources["once"], baseline="none", effort="quick", use_broker=False)
    one(sources["once"], sources, own=own())
    measure(sources["base"], baseline="none", effort="quick", use_broker=False)
    with pytest.raises(InputError, match="measured already"):
        one(sources["once"], sources, own=own())


def test_trust_exists_from_the_promised_count_of_verified_pairs_on(sources: Sources, verify: Verify) -> None:
    verify(21)
    before = one(sources["once"], sources, own=own())
    assert (before.decision, before.calibration.verified_pairs) == ("measure", 21)
    assert "at least 1 more" in before.reason
    assert before.calibration.state == "local"
    verify(1, start=21)
    after = one(sources["sum"], sources, own=own())
    assert (after.decision, after.answer, after.calibration.verified_pairs) == ("trust", "faster", 22)
    stricter = one(sources["unrolled"], sources, own=own(), alpha=0.05)
    assert stricter.decision == "measure"
    other = one(sources["unrolled"], sources, own=own(forecaster="another"))
    assert (other.decision, other.calibration.verified_pairs) == ("measure", 0)


def test_wrong_answers_take_trust_away(sources: Sources, verify: Verify) -> None:
    verify(19)
    verify(3, start=19, log2=-0.6)
    assert one(sources["once"], sources, own=own()).decision == "measure"


def test_the_told_probabilities_are_calibrated_and_the_kept_ones_are_not(
    sources: Sources, store: Store, verify: Verify
) -> None:
    verify(12)
    verify(12, start=12, log2=-0.3)
    result = one(sources["once"], sources, own=own())
    assert result.p_faster is not None
    assert 0.4 < result.p_faster < 0.95
    kept = forecasts.get(store, result.forecast_id or "")
    assert kept is not None
    assert kept.p_bins == pytest.approx(SURE)


@pytest.mark.parametrize(
    "left_out",
    [
        {"quarantine": "too fast"},
        {"measured_first": True},
        {"kind": "trust"},
        {"kind": "drop"},
    ],
    ids=["quarantined", "measured before the forecast", "trusted and not audited", "dropped and not audited"],
)
def test_pairs_that_prove_nothing_are_left_out(sources: Sources, verify: Verify, left_out: dict[str, Any]) -> None:
    verify(3)
    verify(4, start=3, **left_out)
    assert one(sources["once"], sources, own=own()).calibration.verified_pairs == 3


def test_audited_answers_count(sources: Sources, verify: Verify) -> None:
    verify(3, kind="drop", audited=True)
    assert one(sources["once"], sources, own=own()).calibration.verified_pairs == 3


def test_the_brief_tells_an_agent_its_record_and_its_misses(sources: Sources, verify: Verify) -> None:
    verify(6)
    verify(1, start=6, log2=-2.5)
    signed = one(sources["once"], sources, own=own(), detail="brief").brief or ""
    unsigned = one(sources["once"], sources, detail="brief").brief or ""
    for text in (signed, unsigned):
        assert "agent:fable: 7 verified, direction right 86%" in text
        assert "variant6.c: said 1.41x, was 0.18x" in text


def test_several_candidates_are_one_question(sources: Sources, store: Store) -> None:
    names = ["once", "sum", "unrolled"]
    given = [own(), own((0, 0, 0.1, 0.9, 0, 0, 0, 0)), own()]
    results = forecast([sources[name] for name in names], baseline=sources["base"], own=given, detail="brief")
    assert isinstance(results, list)
    assert [Path(sources[name]).name in result.summary for name, result in zip(names, results, strict=True)] == [
        True
    ] * 3
    assert results[1].p_faster == 0
    assert [result.brief is not None for result in results] == [True, False, False]
    assert len(forecasts.find(store)) == 3


def test_what_is_wrong_with_one_candidate_stands_in_its_place(sources: Sources) -> None:
    results = forecast_many([sources["once"], "nowhere.c", sources["broken"]], baseline=sources["base"])
    assert isinstance(results[0], ForecastResult)
    assert isinstance(results[1], InputError)
    assert isinstance(results[2], ForecastResult)
    with pytest.raises(InputError, match=r"nowhere\.c"):
        forecast([sources["once"], "nowhere.c"], baseline=sources["base"])


def test_a_kernel_that_does_not_compile_is_dropped(sources: Sources) -> None:
    result = one(sources["broken"], sources, own=own())
    assert (result.decision, result.answer) == ("drop", "slower")
    assert result.compile is not None
    assert not result.compile.ok
    assert "does not compile" in result.reason
    assert (result.p_correct, result.p_faster, result.speedup_median, result.p_bins) == (0.0, None, None, None)


def test_equal_programs_tie(sources: Sources, tmp_path: Path) -> None:
    same = tmp_path / "same.c"
    same.write_text(Path(sources["base"]).read_text() + "// a remark changes nothing\n")
    result = one(str(same), sources, own=own())
    assert (result.decision, result.answer) == ("drop", "unsure")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"p_correct": 0.9, "p_bins": list(SURE)}, "name of who"),
        ({"p_correct": 0.9, "p_bins": list(SURE)[:7], "forecaster": "fable"}, "8 bin probabilities"),
        ({"p_correct": 0.9, "p_bins": [0.0] * 8, "forecaster": "fable"}, "zero"),
        ({"p_correct": 1.9, "p_bins": [0.5] * 8, "forecaster": "fable"}, "sum to 1"),
        ({"p_bins": list(SURE), "forecaster": "fable"}, r"own\.p_correct"),
        ({"p_correct": 0.9, "p_bins": list(SURE), "forecaster": "a b\nc"}, "short word"),
        ({"p_correct": 0.9, "p_bins": list(SURE), "forecaster": "fable", "bins": 1}, r"own\.bins"),
    ],
)
def test_unfit_own_probabilities_are_refused_and_nothing_is_kept(
    sources: Sources, store: Store, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        one(sources["once"], sources, own=given)
    assert forecasts.find(store) == []


def test_bad_arguments_are_refused(sources: Sources) -> None:
    for more in ({"alpha": 0.7}, {"detail": "all"}, {"backend": "learnt"}, {"own": own(), "backend": "learned"}):
        with pytest.raises(InputError):
            one(sources["once"], sources, **more)
    with pytest.raises(InputError, match="wrong number"):
        forecast([], baseline=sources["base"])
    with pytest.raises(InputError, match="needs a baseline"):
        forecast(sources["once"])


def test_a_concise_answer_is_short_and_carries_no_source(sources: Sources, verify: Verify) -> None:
    verify(22)
    for name, more in (("once", {}), ("sum", {"own": own()}), ("broken", {"own": own()})):
        text = one(sources[name], sources, **more).model_dump_json()
        assert tokens(text) <= 1.2 * 400
        assert "x[i]" not in text


def test_against_a_library_of_which_there_are_no_facts(store: Store) -> None:
    """PyTorch's own operation is a program that nothing compiles: the forecast stands without its facts."""
    pytest.importorskip("torch")
    tuned = builtin_kernel("softmax_rows", "cuda", "tuned")
    result = forecast(str(tuned), baseline="library", store=store)
    assert isinstance(result, ForecastResult)
    assert result.decision == "measure"
    assert result.compile is not None
