"""Lines and figures: whatever is in them, they take the columns they were given."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kforecast.app.tui.code import code_lines, diff_lines
from kforecast.app.tui.figures import amount, clock, gauge, sparkline, tightest
from kforecast.app.tui.lines import Column, Line, fitted, harmless, joined, layout, row_line, width_of

spans = st.lists(st.tuples(st.text(max_size=12), st.sampled_from(["", "dim", "good"])), max_size=5).map(tuple)
columns = st.lists(
    st.builds(
        Column, st.just("c"), st.integers(1, 20), grow=st.integers(0, 3), right=st.booleans(), drop=st.integers(0, 3)
    ),
    min_size=1,
    max_size=6,
)


@given(line=spans, width=st.integers(0, 40), right=st.booleans())
def test_a_fitted_line_takes_exactly_its_width(line: Line, width: int, right: bool) -> None:
    assert width_of(fitted(line, width, right=right)) == width


@given(text=st.text())
def test_harmless_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = harmless(text)
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown)
    assert harmless(shown) == shown


@given(columns=columns, width=st.integers(1, 120))
def test_a_row_fits_unless_what_always_stays_does_not(columns: list[Column], width: int) -> None:
    places = layout(columns, width)
    needed = sum(wide for _, wide in places) + 2 * (len(places) - 1)
    assert needed <= width or all(columns[index].drop == 0 for index, _ in places)
    assert {index for index, column in enumerate(columns) if column.drop == 0} <= {index for index, _ in places}
    assert width_of(row_line(["x" * 30] * len(columns), columns, places)) == max(0, needed)


@given(parts=st.lists(spans, max_size=6), width=st.integers(1, 60))
def test_parts_side_by_side_fit_but_for_the_first(parts: list[Line], width: int) -> None:
    first = next((width_of(part) for part in parts if width_of(part)), 0)
    assert width_of(joined(parts, width)) <= max(width, first)


@given(values=st.lists(st.floats(0, 10), max_size=30), share=st.floats(-1, 3), width=st.integers(1, 20))
def test_curves_and_gauges_have_their_length(values: list[float], share: float, width: int) -> None:
    assert len(sparkline(values)) == len(values)
    (full, _), (rest, _) = gauge(share, width)
    assert len(full) + len(rest) == width


def test_the_limit_that_is_nearest_to_its_end() -> None:
    assert tightest({"usd": 1.0, "measurements": 9.0}, {"usd": 10.0, "measurements": 10.0}) == ("measurements", 0.9)
    assert tightest({"usd": 1.0}, {}) is None
    assert [clock(9.96), clock(65), clock(7260)] == ["10.0s", "1m05", "2h01"]
    assert [amount(3.756), amount(40), amount(12_345)] == ["3.76", "40", "12k"]


def test_sources_have_numbers_and_roles_and_lose_nothing() -> None:
    source = '#include <a.h>\nint f(void) { return 42; } // é\n\n/* two\n   lines */\n"unclosed'
    for language in ("c", "cuda", "triton", "torch"):
        lines = code_lines(source, language)
        assert "\n".join("".join(text for text, _ in line[1:]) for line in lines) == source
    roles = {role for line in code_lines(source, "c") for _, role in line}
    assert {"code-comment", "code-number", "code-type", "code-directive"} <= roles
    assert [line[0][1] for line in diff_lines(["@@ x", "-a", "+b", " c"])] == ["code-directive", "removed", "added", ""]
