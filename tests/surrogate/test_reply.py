"""Reading replies: every shape a model was seen to answer in, and every nonsense that must be refused."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.surrogate.reply import P_BIN, ReplyError, read, repair_message, reply_from

GOOD = {"p_correct": 0.9, **dict(zip(P_BIN, (0, 0, 0.05, 0.15, 0.5, 0.2, 0.1, 0), strict=True)), "reasoning": "wider"}
JSON = json.dumps(GOOD)


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        JSON,
        f"```json\n{JSON}\n```",
        f"Let me think {{about}} it [carefully].\n\nSo: {JSON}\nThat is my forecast.",
        json.dumps({"forecast": GOOD}),
        json.dumps([GOOD]),
        JSON[:-1] + ",}",
        json.dumps({name.upper().replace("_", " "): value for name, value in GOOD.items()}),
        json.dumps({**GOOD, **{name: f"{100 * GOOD[name]:.0f}%" for name in ("p_correct", *P_BIN)}}),
        json.dumps({**GOOD, **{name: 100 * GOOD[name] for name in ("p_correct", *P_BIN)}}),
        json.dumps({"p_correct": 0.9, "reasoning": "wider", "p_bins": [GOOD[name] for name in P_BIN]}),
        json.dumps({"p_correct": 0.9, "reasoning": "wider", "bins": {name[2:]: GOOD[name] for name in P_BIN}}),
    ],
)  # fmt: skip
def test_every_shape_gives_the_same_forecast(content: object) -> None:
    reply = read(content)[0]
    assert reply.p_correct == pytest.approx(0.9)
    assert reply.p_bins == pytest.approx((0, 0, 0.05, 0.15, 0.5, 0.2, 0.1, 0))
    assert reply.reasoning == "wider"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dict.fromkeys(P_BIN, 0), "zero"),
        ({P_BIN[4]: -0.5}, "0 or more"),
        ({P_BIN[4]: math.nan}, "finite"),
        ({P_BIN[4]: math.inf}, "finite"),
        ({P_BIN[4]: "likely"}, "not a number"),
        ({P_BIN[4]: True}, "not a number"),
        ({P_BIN[4]: 0.1}, "sum to 1"),
        ({P_BIN[4]: 0.9}, "sum to 1"),
        ({"p_correct": 101}, "p_correct"),
        ({"p_correct": None}, "p_correct is missing"),
        ({"p_correct": -0.1}, "0 or more"),
    ],
)
def test_nonsense_is_refused_with_a_reason(change: dict[str, object], said: str) -> None:
    with pytest.raises(ReplyError, match=said):
        read(json.dumps({**GOOD, **change}))


@pytest.mark.parametrize(
    "content", [None, "", "I cannot help with that.", "{" * 5000, "[" * 100_000, "{}", "[1, 2]", {}]
)
def test_no_forecast_is_said_so(content: object) -> None:
    with pytest.raises(ReplyError, match="no forecast"):
        read(content)  # type: ignore[arg-type]


def test_missing_bins_are_zero_and_a_signal() -> None:
    kept = {name: value for name, value in GOOD.items() if name not in (P_BIN[0], P_BIN[7])}
    reply = read(kept)[0]
    assert reply.p_bins[0] == reply.p_bins[7] == 0
    assert any(P_BIN[0] in signal for signal in reply.signals)


def test_a_clean_reply_has_no_signals() -> None:
    assert read(GOOD)[0].signals == ()


@given(st.lists(st.floats(0.01, 1), min_size=8, max_size=8), st.floats(0.75, 1.10))
def test_sums_near_one_are_renormalised_and_kept(weights: list[float], total: float) -> None:
    reply = reply_from(0.5, [weight / sum(weights) * total for weight in weights])
    assert sum(reply.p_bins) == pytest.approx(1, abs=1e-12)
    assert reply.raw_sum == pytest.approx(total)


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        replies = read(text)
    except ReplyError:
        return
    assert sum(replies[0].p_bins) == pytest.approx(1)


keys = st.sampled_from([*P_BIN, "p_correct", "candidate", "p_bins", "x"])
values = st.none() | st.booleans() | st.floats() | st.text()


@given(st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20))
def test_no_json_breaks_the_reader(value: object) -> None:
    try:
        replies = read(json.dumps(value), 3)
    except ReplyError:
        return
    assert set(replies) <= {0, 1, 2}


def test_several_candidates_are_told_apart_by_number_or_by_order() -> None:
    first, second = {**GOOD, "p_correct": 0.1}, {**GOOD, "p_correct": 0.2}
    numbered = [{**second, "candidate": 2}, {**first, "candidate": "candidate 1"}]
    for content in (numbered, [json.dumps(entry) for entry in numbered], [first, second]):
        replies = read(content, 2)
        assert (replies[0].p_correct, replies[1].p_correct) == (0.1, 0.2)


def test_one_bad_candidate_leaves_the_good_ones() -> None:
    assert set(
        read([{**GOOD, "candidate": 1}, {**GOOD, "candidate": 2, "p_correct": None}, {**GOOD, "candidate": 9}], 3)
    ) == {0}


def test_the_last_word_counts() -> None:
    assert read(f"First {json.dumps({**GOOD, 'p_correct': 0.2})} but then {JSON}")[0].p_correct == pytest.approx(0.9)


def test_the_repair_turn_says_what_was_wrong_and_which_are_missing() -> None:
    with pytest.raises(ReplyError) as caught:
        read({**GOOD, P_BIN[4]: 0.1})
    text = repair_message(caught.value, [1], 3)
    assert "sum to 1" in text and "0.6" in text and "candidate 2" in text and P_BIN[7] in text
    assert "candidate" not in repair_message(caught.value, [0], 1)


@pytest.mark.parametrize("count", [0, 7, 9])
def test_there_are_eight_bins(count: int) -> None:
    with pytest.raises(ReplyError, match="8 bin probabilities"):
        reply_from(0.5, [1 / 8] * count)


@pytest.mark.parametrize(("total", "kept"), [(0.749, False), (0.75, True), (1.0, True), (1.10, True), (1.101, False)])
def test_the_sum_has_exact_limits(total: float, kept: bool) -> None:
    given_bins = [0, 0, 0, total / 4, total / 2, total / 4, 0, 0]
    if kept:
        assert reply_from(0.5, given_bins).raw_sum == pytest.approx(total)
    else:
        with pytest.raises(ReplyError, match="sum to 1"):
            reply_from(0.5, given_bins)
