"""Plots in characters: of the size asked for, everything inside of the frame, points where their numbers say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforecast.app.tui.lines import width_of
from kforecast.app.tui.plots import Axis, Plot, beside
from kforecast.app.tui.record_lines import DRAWINGS, drawn, score_lines
from kforecast.tools.viewing.record import Forecaster, Record, Told, record_from

UNIT = Axis(0.0, 1.0, (0.0, 0.5, 1.0))
numbers = st.floats(-10, 10)


def text(plot: Plot) -> list[str]:
    return ["".join(part for part, _ in line) for line in plot.lines()]


@given(st.lists(st.tuples(numbers, numbers), max_size=8), st.integers(10, 90), st.integers(4, 30))
def test_whatever_is_drawn_the_plot_has_the_size_asked_for(
    points: list[tuple[float, float]], width: int, height: int
) -> None:
    plot = Plot(width, height, UNIT, UNIT, "up", "across")
    plot.line(points, "a")
    plot.dots(points, "b")
    for x, y in points:
        plot.mark(x, y, "*", "c")
    lines = plot.lines()
    assert len(lines) == height
    assert all(width_of(line) <= width for line in lines)


def test_points_stand_where_their_numbers_say() -> None:
    plot = Plot(28, 12, UNIT, UNIT)
    for x, y, glyph in ((0, 0, "a"), (1, 1, "b"), (0.5, 0.5, "c"), (9, -9, "d")):
        plot.mark(x, y, glyph, "")
    rows = text(plot)
    assert rows[0].index("b") == 26
    assert rows[9].index("a") == 7
    assert rows[9].index("d") == 26
    assert rows[5].index("c") == 17


def test_a_line_reaches_from_corner_to_corner_and_marks_stay_on_top() -> None:
    plot = Plot(20, 8, UNIT, UNIT)
    plot.mark(0, 0, "x", "")
    plot.line([(0, 0), (1, 1)], "")
    rows = [row[7:] for row in text(plot)[:6]]
    assert all(row.strip() for row in rows)
    assert rows[5][0] == "x"
    assert rows[0].rstrip()[-1] not in " x"


def test_axes_carry_their_numbers() -> None:
    rows = text(Plot(40, 12, UNIT, UNIT, "happened", "said"))
    assert "happened" in rows[0]
    assert [row.split("┤")[0].strip() for row in rows if "┤" in row] == ["1", "0.5", "0"]
    assert rows[-1].split() == ["0", "0.5", "1"] or "said" in rows[-1]
    assert rows[-2].count("┴") == 3


def test_two_blocks_side_by_side_keep_their_columns() -> None:
    joined = beside([(("ab", ""),), (("abcdef", ""),)], [(("x", ""),), (("y", ""),), (("z", ""),)], 4)
    assert ["".join(part for part, _ in line) for line in joined] == ["ab    x", "abc…  y", "      z"]


def told(number: int, forecast: float, measured: float | None) -> Told:
    return Told(
        key=f"f{number}", kernel_id=f"k{number}", name=f"k{number}.c", task="t", at=f"2026-01-01T00:00:{number:02}Z",
        forecast=forecast, low=forecast - 0.5, high=forecast + 0.5, p_correct=0.9, p_faster=0.6,
        ok=measured is not None, measured=measured, measured_low=measured, measured_high=measured,
        decision="measure", audited=False,
    )  # fmt: skip


@pytest.fixture
def record() -> Record:
    found = [told(number, math.sin(number), math.sin(number) + 0.2) for number in range(40)]
    return record_from(Forecaster("store a cpu", "a", "cpu", "store", 45, ""), [*found, told(41, 1.0, None)])


@pytest.mark.parametrize("drawing", list(DRAWINGS))
@pytest.mark.parametrize(("width", "height"), [(78, 10), (70, 24), (12, 4)])
def test_every_drawing_fits(record: Record, drawing: str, width: int, height: int) -> None:
    lines, plot = drawn(record, drawing, width, height, "f3")  # type: ignore[arg-type]
    assert plot is not None
    assert len(lines) == height
    assert all(width_of(line) <= width for line in lines)


@pytest.mark.parametrize("drawing", list(DRAWINGS))
def test_before_anything_was_verified_a_drawing_says_so(drawing: str) -> None:
    nothing = record_from(Forecaster("store a cpu", "a", "cpu", "store", 3, ""), [])
    lines, plot = drawn(nothing, drawing, 60, 10, None)  # type: ignore[arg-type]
    assert plot is None
    assert "verified" in "".join(part for line in lines for part, _ in line)
    assert "none of them verified yet" in score_lines(nothing, 70)[0][0][0]


def test_what_held_what_missed_and_what_was_not_right_differ_in_shape(record: Record) -> None:
    missed = record_from(record.of, [told(1, 0.0, 0.1), told(2, 0.0, 1.5), told(3, 0.5, None), told(4, -1.0, -1.0)])
    lines, _ = drawn(missed, "scatter", 60, 20, "f4")
    picture = "\n".join("".join(part for part, _ in line) for line in lines[1:])
    assert [picture.count(glyph) for glyph in "●×✗◆"] == [1, 1, 1, 1]


def test_the_record_in_words_fits_a_narrow_terminal(record: Record) -> None:
    lines = score_lines(record, 78)
    assert all(width_of(line) <= 78 for line in lines)
    words = "".join(part for part, _ in lines[0])
    assert "verified 41" in words and "80% held 100%" in words
