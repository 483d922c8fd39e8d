"""Numbers and findings as people read them: times, ratios, intervals, mismatches. Plain ASCII."""

from __future__ import annotations

from ..store.bins import EDGE_TEXT
from ..store.models import Mismatch


def time_text(time_us: float | None) -> str:
    """Microseconds with three significant digits and the unit that fits: `41.2 us`, `1.23 ms`, `-` for None."""
    if time_us is None:
        return "-"
    for unit, scale in (("us", 1.0), ("ms", 1e3), ("s", 1e6)):
        value = time_us / scale
        if float(f"{value:.3g}") < 1000 or unit == "s":
            return f"{_three_digits(value)} {unit}"
    raise AssertionError("unreachable: the last unit takes every value")


def ratio_text(ratio: float | None) -> str:
    """S with as many digits as a good measurement resolves: `2.31`, `1.004`, `0.0312`, `-` for None."""
    if ratio is None:
        return "-"
    return f"{ratio:.3f}" if 0.9 <= ratio < 1.1 else _three_digits(ratio)


def interval_text(low: float | None, high: float | None) -> str:
    """`2.25 .. 2.38`, both ends with the same digits where both are near 1; empty where neither end is known."""
    if low is None and high is None:
        return ""
    if low is None or high is None or (0.9 <= low < 1.1) == (0.9 <= high < 1.1):
        return f"{ratio_text(low)} .. {ratio_text(high)}"
    return f"{_three_digits(low)} .. {_three_digits(high)}"


def interval_words(low: float | None, high: float | None, confidence: float | None) -> str:
    """` (95% interval 2.25 to 2.38)`, or an empty string where neither end is known."""
    if low is None and high is None:
        return ""
    level = "" if confidence is None else f"{100 * confidence:g}% "
    if low is None:
        return f" ({level}interval up to {ratio_text(high)})"
    if high is None:
        return f" ({level}interval from {ratio_text(low)})"
    return f" ({level}interval {interval_text(low, high).replace('..', 'to')})"


def span_text(low: float | None, high: float | None, *, short: bool = False) -> str:
    """A forecast's interval of S, None where it is open: `0.57 to 2.3`, `2.5 to over 4`; short: `2.5 .. >4`."""
    if low is not None and high is not None:
        text = interval_text(low, high)
    else:
        under, over = ("<", ">") if short else ("under ", "over ")
        ends = f"{under}{EDGE_TEXT[0]}" if low is None else ratio_text(low)
        text = f"{ends} .. {f'{over}{EDGE_TEXT[-1]}' if high is None else ratio_text(high)}"
    return text if short else text.replace("..", "to")


def mismatch_words(mismatch: Mismatch) -> str:
    """The first wrong element as a clause: where, what came, what was wanted; then the extent or the explanation."""
    index = f"[{', '.join(str(i) for i in mismatch.index)}]" if mismatch.index else ""
    text = f"in case {mismatch.case}, {mismatch.tensor}{index} is {mismatch.got} where {mismatch.want} was wanted"
    if mismatch.error is not None and mismatch.limit is not None:
        text += f" (error {mismatch.error:.3g}, limit {mismatch.limit:.3g})"
    if mismatch.explanation:
        return f"{text}. {mismatch.explanation.rstrip('.')}"
    return f"{text}; {mismatch.wrong:,} of {mismatch.total:,} elements are wrong"


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")


def _three_digits(value: float) -> str:
    """Three significant digits, without an exponent for anything a table shows."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if float(f"{abs(value):.3g}") >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}"
