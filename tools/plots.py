"""Plots of an evaluation, as SVG and for a terminal: reliability, and risk against coverage. No library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .eval_results import Scored

_SIZE = 360
_MARGIN = 48
_COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8a5a00", "#6a4c93", "#444444")
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 3", "12 4")
_COLUMNS, _ROWS = 61, 16
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
Points = Sequence[tuple[float, float]]


def reliability_svg(scored: Sequence[Scored]) -> str:
    """Of P(faster): what was said against what happened, one line a forecaster; the diagonal is calibration."""
    return _chart("Reliability of P(faster)", "said", "happened", _reliability(scored), marks=True, diagonal=True)


def risk_coverage_svg(scored: Sequence[Scored]) -> str:
    """The share wrong among the surest answers, against the share answered."""
    return _chart("Risk and coverage", "share answered", "share wrong", [(o.name, o.risk_coverage) for o in scored])


def reliability_text(scored: Sequence[Scored]) -> str:
    """The reliability diagram in ASCII: a letter a forecaster, dots where said and happened are equal."""
    return _drawn("P(faster): said across, happened up", _reliability(scored), diagonal=True)


def risk_coverage_text(scored: Sequence[Scored]) -> str:
    """The risk-coverage curve in ASCII: a letter a forecaster."""
    lines = [(one.name, one.risk_coverage) for one in scored]
    return _drawn("share answered across, share wrong among them up", lines)


def _reliability(scored: Sequence[Scored]) -> list[tuple[str, Points]]:
    return [(one.name, [(said, happened) for said, happened, _ in one.reliability]) for one in scored]


def _drawn(title: str, lines: Sequence[tuple[str, Points]], *, diagonal: bool = False) -> str:
    """A chart on the unit square in characters; where two lines meet, the one named first is seen."""
    grid = [[" "] * _COLUMNS for _ in range(_ROWS)]

    def put(x: float, y: float, mark: str) -> None:
        grid[_ROWS - 1 - round(y * (_ROWS - 1))][round(x * (_COLUMNS - 1))] = mark

    if diagonal:
        for column in range(_COLUMNS):
            put(column / (_COLUMNS - 1), column / (_COLUMNS - 1), ".")
    for letter, (_, points) in reversed(list(zip(_LETTERS, lines, strict=False))):
        for x, y in points:
            put(x, y, letter)
    ticks = {0: "1.0", (_ROWS - 1) // 2: "0.5", _ROWS - 1: "0.0"}
    rows = [f"  {ticks.get(number, ''):>3} |{''.join(row).rstrip()}" for number, row in enumerate(grid)]
    half = " " * (_COLUMNS // 2 - 2)
    axis = [f"      +{'-' * _COLUMNS}", f"      0{half}0.5{half}1.0".rstrip()]
    return "\n".join(
        [
            f"  {title}",
            *rows,
            *axis,
            *(f"  {letter}  {name}" for letter, (name, _) in zip(_LETTERS, lines, strict=False)),
        ]
    )


def _chart(
    title: str,
    across: str,
    up: str,
    lines: Sequence[tuple[str, Points]],
    *,
    marks: bool = False,
    diagonal: bool = False,
) -> str:
    """A chart on the unit square."""
    width = _SIZE + 2 * _MARGIN
    height = width + 18 * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(width / 2, 20, title, "middle", 14),
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _place(tick, tick)
        parts += [
            f'<path d="M{x:.1f} {_MARGIN}V{_MARGIN + _SIZE}M{_MARGIN} {y:.1f}H{_MARGIN + _SIZE}" stroke="#dddddd"/>',
            _text(x, _MARGIN + _SIZE + 16, f"{tick:g}", "middle"),
            _text(_MARGIN - 6, y + 4, f"{tick:g}", "end"),
        ]
    parts += [_text(width / 2, _MARGIN + _SIZE + 34, across, "middle"), _text(_MARGIN, _MARGIN - 8, up, "start")]
    if diagonal:
        parts.append(f'<path d="{_path([(0.0, 0.0), (1.0, 1.0)])}" stroke="#999999" fill="none"/>')
    for number, (name, points) in enumerate(lines):
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number % len(_DASHES)]
        style = f'stroke="{colour}" stroke-width="2" fill="none" stroke-dasharray="{dash}"'
        if points:
            parts.append(f'<path d="{_path(points)}" {style}/>')
        if marks:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in map(_of, points)]
        y = width + 18 * number
        parts += [f'<path d="M{_MARGIN} {y - 4}h30" {style}/>', _text(_MARGIN + 38, y, name, "start")]
    return "\n".join([*parts, "</svg>\n"])


def _place(x: float, y: float) -> tuple[float, float]:
    return _MARGIN + x * _SIZE, _MARGIN + (1 - y) * _SIZE


def _of(point: tuple[float, float]) -> tuple[float, float]:
    return _place(*point)


def _path(points: Points) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in map(_of, points))


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
