"""Plots of an evaluation as SVG text: reliability, and risk against coverage. Lines and words, no library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .eval_results import Scored

_SIZE = 360
_MARGIN = 48
_COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8a5a00", "#6a4c93", "#444444")
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 3", "12 4")
Points = Sequence[tuple[float, float]]


def reliability_svg(scored: Sequence[Scored]) -> str:
    """Of P(faster): what was said against what happened, one line a forecaster; the diagonal is calibration."""
    lines = [(one.name, [(said, happened) for said, happened, _ in one.reliability]) for one in scored]
    return _chart("Reliability of P(faster)", "said", "happened", lines, marks=True, diagonal=True)


def risk_coverage_svg(scored: Sequence[Scored]) -> str:
    """The share wrong among the surest answers, against the share answered."""
    return _chart("Risk and coverage", "share answered", "share wrong", [(o.name, o.risk_coverage) for o in scored])


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
