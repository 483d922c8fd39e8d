from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.store.models import Mismatch
from kforecast.tools.words import (
    first_line,
    interval_text,
    interval_words,
    mismatch_words,
    ratio_text,
    span_text,
    time_text,
)


@pytest.mark.parametrize(
    ("time_us", "text"),
    [
        (None, "-"),
        (0.0123, "0.0123 us"),
        (2.6, "2.60 us"),
        (41.23, "41.2 us"),
        (999.4, "999 us"),
        (999.6, "1.00 ms"),
        (1234.0, "1.23 ms"),
        (57.8e6, "57.8 s"),
        (12_345e6, "12345 s"),
    ],
)
def test_time_text(time_us: float | None, text: str) -> None:
    assert time_text(time_us) == text


@given(st.floats(min_value=1e-3, max_value=1e12))
def test_time_text_is_the_time_within_half_a_percent(time_us: float) -> None:
    number, unit = time_text(time_us).split()
    assert float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit] == pytest.approx(time_us, rel=0.0051)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "-"), (1.0, "1.000"), (1.0042, "1.004"), (2.314, "2.31"), (0.0312, "0.0312"), (31.4, "31.4")],
)
def test_ratio_text_resolves_what_matters_near_one(ratio: float | None, text: str) -> None:
    assert ratio_text(ratio) == text


def test_interval_text_has_the_same_digits_at_both_ends() -> None:
    assert interval_text(0.996, 1.004) == "0.996 .. 1.004"
    assert interval_text(1.05, 4.6) == "1.05 .. 4.60"
    assert interval_text(None, 4.6) == "- .. 4.60"
    assert interval_text(None, None) == ""


def test_interval_words() -> None:
    assert interval_words(None, None, 0.95) == ""
    assert interval_words(2.25, 2.38, 0.95) == " (95% interval 2.25 to 2.38)"
    assert interval_words(None, 0.5, 0.99) == " (99% interval up to 0.5)"
    assert interval_words(2.0, None, None) == " (interval from 2.00)"


def test_mismatch_words_name_the_place_and_the_extent() -> None:
    mismatch = Mismatch(
        case="R=7 C=33",
        tensor="y",
        index=(3, 17),
        got="0",
        want="0.0312",
        error=1.0,
        limit=0.01,
        wrong=1230,
        total=2310,
        explanation="",
    )
    assert mismatch_words(mismatch) == (
        "in case R=7 C=33, y[3, 17] is 0 where 0.0312 was wanted (error 1, limit 0.01); "
        "1,230 of 2,310 elements are wrong"
    )


def test_first_line_skips_blank_ones() -> None:
    assert first_line("\n  \n a.c:3: error\nmore") == "a.c:3: error"
    assert first_line("") == "no reason was given"


@pytest.mark.parametrize(
    ("low", "high", "text", "short"),
    [
        (0.574, 2.25, "0.574 to 2.25", "0.574 .. 2.25"),
        (2.52, None, "2.52 to over 4", "2.52 .. >4"),
        (None, 1.2, "under 1/4 to 1.20", "<1/4 .. 1.20"),
        (None, None, "under 1/4 to over 4", "<1/4 .. >4"),
    ],
)
def test_an_open_end_is_said(low: float | None, high: float | None, text: str, short: str) -> None:
    assert (span_text(low, high), span_text(low, high, short=True)) == (text, short)
