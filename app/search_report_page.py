"""A search's report as one HTML file that needs nothing else: no script, no font, no network; curves as inline SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from ..tools.search.report import Report
from ..tools.words import interval_text, ratio_text, time_text

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #5c6670; --line: #d5dae0; --paper: #fff; --mark: #0b62c4;
  --good: #17713a; --bad: #a32020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --dim: #9aa4ae; --line: #3a424a; --paper: #15181b;
  --mark: #6aa9f4; --good: #6cc78d; --bad: #ee8080; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem } h2 { font-size: 1.1rem; margin-top: 2.2rem }
p.lead { font-size: 1.1rem } .dim { color: var(--dim) } code, pre { font: 13px/1.45 ui-monospace, monospace }
pre { border: 1px solid var(--line); padding: .8rem; overflow: auto } pre.long { max-height: 32rem }
ol { margin: .4rem 0; padding-left: 1.4rem } .plus { color: var(--good) }
.minus { color: var(--bad) } table { border-collapse: collapse; width: 100%; font-size: 13px }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
svg { width: 100%; height: auto; display: block } .two { display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem }
@media (max-width: 42rem) { .two { grid-template-columns: 1fr } }
text { font: 11px system-ui, sans-serif; fill: var(--dim) }
"""
_WIDTH, _HEIGHT = 460.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 12.0, 34.0


def search_report_page(report: Report) -> str:
    """The whole page."""
    result = report.result
    parts = [
        f"<h1>Search of {escape(result.task)} on {escape(_short(result.device))}</h1>",
        f'<p class="dim">{escape(result.search_id)} · policy {escape(result.policy)} · generator '
        f"{escape(result.generator)} · forecaster {escape(result.forecaster)} · seed {escape(report.seed.name)}</p>",
        f'<p class="lead">{escape(result.summary.replace(result.device, _short(result.device)))}</p>',
        f"<p>{escape(result.reason)}</p>" if result.reason else "",
        _best(report),
        "<h2>Best so far</h2>",
        f'<div class="two">{_curves(report)}</div>',
        "<h2>Forecast against measured</h2>",
        _scatter(report),
        "<h2>Decisions, spend, regret</h2>",
        _numbers(report),
        "<h2>Candidates</h2>",
        _table(report),
        "<h2>Change from the seed</h2>" if result.best is not None else "",
        f'<pre class="long">{_diff(report.diff)}</pre>' if result.best is not None else "",
        "<h2>Configuration</h2>",
        f"<pre>{escape(report.config.model_dump_json(indent=2))}</pre>",
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{escape(result.summary.replace(result.device, _short(result.device)))}</title>"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head><body>\n'
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _best(report: Report) -> str:
    best = report.result.best
    if best is None:
        return "<p>Nothing measured was faster than the seed.</p>"
    interval = interval_text(best.low, best.high)
    head = f"<h2>Best kernel: {ratio_text(best.speedup)}x the seed</h2>"
    facts = f"Interval {interval}; {time_text(best.time_us)}; {'verified' if best.verified else 'not verified'}; "
    way = "".join(
        f"<li>{escape(step.idea)}{'' if step.log2 is None else f': {ratio_text(2.0**step.log2)}x'}</li>"
        for step in report.steps
    )
    return f"{head}<p>{facts}<code>{escape(best.kernel_id)}</code></p><ol>{way}</ol>"


def _short(device: str) -> str:
    """A replay's file by its name: where it lies is this machine's business."""
    kind, colon, path = device.partition(":")
    return f"{kind}:{Path(path).name}" if colon and "/" in path else device


def _diff(diff: str) -> str:
    lines = []
    for line in diff.splitlines():
        kind = "plus" if line.startswith("+") else "minus" if line.startswith("-") else ""
        text = escape(line)
        lines.append(f'<span class="{kind}">{text}</span>' if kind else text)
    return "\n".join(lines) or "no change of text"


def _curves(report: Report) -> str:
    points = report.curve
    if not points:
        return "<p>Nothing was measured yet.</p>"
    by_seconds = [(point.gpu_seconds, 2.0**point.log2) for point in points]
    by_candidates = [(float(point.candidates), 2.0**point.log2) for point in points]
    return _steps(by_seconds, "GPU seconds") + _steps(by_candidates, "candidates considered")


def _steps(points: Sequence[tuple[float, float]], unit: str) -> str:
    """A step curve of best S so far."""
    right = max(x for x, _ in points) or 1.0
    low, high = 1.0, max(1.05, *(y for _, y in points))
    x_of, y_of = _scales(0.0, right, low, high)
    path = f"M{x_of(0.0):.1f},{y_of(1.0):.1f}"
    for x, y in points:
        path += f"H{x_of(x):.1f}V{y_of(min(max(y, low), high)):.1f}"
    line = f'<path d="{path}" fill="none" stroke="var(--mark)" stroke-width="2"/>'
    return _framed(line, x_of, y_of, (0.0, right), (low, high), unit, f"best S against {unit}")


def _scatter(report: Report) -> str:
    pairs = [pair for pair in report.verified if pair.log2 is not None]
    if not pairs:
        return "<p>No forecast was verified.</p>"
    values = [value for pair in pairs for value in (pair.forecast, pair.log2 or 0.0)]
    low, high = min(values) - 0.1, max(values) + 0.1
    x_of, y_of = _scales(low, high, low, high)
    marks = [
        f'<line x1="{x_of(low):.1f}" y1="{y_of(low):.1f}" x2="{x_of(high):.1f}" y2="{y_of(high):.1f}" '
        'stroke="var(--line)"/>'
    ]
    for pair in pairs:
        x, y = x_of(pair.forecast), y_of(pair.log2 or 0.0)
        title = escape(f"{pair.idea}: forecast {2.0**pair.forecast:.3f}, measured {2.0 ** (pair.log2 or 0.0):.3f}")
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="var(--mark)" fill-opacity=".6">'
            f"<title>{title}</title></circle>"
        )
    errors = [abs(pair.forecast - (pair.log2 or 0.0)) for pair in pairs]
    inside = sum(pair.p10 <= (pair.log2 or 0.0) <= pair.p90 for pair in pairs)
    wrong = len(report.verified) - len(pairs)
    text = (
        f"{len(pairs)} verified forecasts of right kernels: mean error {sum(errors) / len(errors):.2f} octaves, "
        f"{inside} of {len(pairs)} inside their 80% interval; {wrong} forecasts of kernels that were not right."
    )
    plot = _framed("".join(marks), x_of, y_of, (low, high), (low, high), "forecast log2 S", "measured log2 S")
    return f'<div class="two">{plot}<p>{text}</p></div>'


def _scales(
    left: float, right: float, low: float, high: float
) -> tuple[Callable[[float], float], Callable[[float], float]]:
    def x_of(x: float) -> float:
        return _LEFT + (x - left) / (right - left) * (_WIDTH - _LEFT - _RIGHT)

    def y_of(y: float) -> float:
        return _HEIGHT - _BOTTOM - (y - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    return x_of, y_of


def _framed(
    marks: str,
    x_of: Callable[[float], float],
    y_of: Callable[[float], float],
    across: tuple[float, float],
    up: tuple[float, float],
    unit: str,
    label: str,
) -> str:
    """Marks with two axes and their ends in numbers."""
    bottom = _HEIGHT - _BOTTOM
    axes = f'<path d="M{_LEFT},{_TOP}V{bottom}H{_WIDTH - _RIGHT}" fill="none" stroke="var(--line)"/>'
    for value in (up[0], (up[0] + up[1]) / 2, up[1]):
        axes += f'<text x="{_LEFT - 6}" y="{y_of(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>'
    for value, anchor in ((across[0], "start"), (across[1], "end")):
        axes += f'<text x="{x_of(value):.1f}" y="{bottom + 15}" text-anchor="{anchor}">{value:.4g}</text>'
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    axes += f'<text x="{middle}" y="{bottom + 28}" text-anchor="middle">{escape(unit)}</text>'
    box = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{escape(label)}"'
    return f"<svg {box}>{axes}{marks}</svg>"


def _numbers(report: Report) -> str:
    result, missed = report.result, report.missed
    limits = result.limits
    names = sorted(result.spent.keys() | limits.keys())
    spent = [
        (name.replace("_", " "), f"{result.spent.get(name, 0.0):.4g}", f"{limits[name]:.4g}" if name in limits else "")
        for name in names
    ]
    rows = "".join(f'<tr><td>{a}</td><td class="n">{b}</td><td class="n">{c}</td></tr>' for a, b, c in spent)
    tally = ", ".join(f"{count} {kind}" for kind, count in report.decisions.items()) or "none"
    ended = ", ".join(f"{count} {kind}" for kind, count in report.verdicts.items()) or "none"
    regret = (
        f"{missed.skipped} candidates were decided without measuring; {missed.audited} of them were audited and "
        f"{missed.better} of those beat the incumbent of their time. Weighted by 1/propensity, what was passed over "
        f"gains {missed.expected:.2f} octaves in sum."
    )
    if missed.audited == 0:
        regret = (
            f"{missed.skipped} candidates were decided without measuring; none was audited, so regret does not show."
        )
    if missed.in_pool is not None:
        regret += f" In this replay the best recorded kernel is {2.0**missed.in_pool:.3f}x the one found."
    return (
        f'<table><tr><th>budget</th><th class="n">spent</th><th class="n">limit</th></tr>{rows}</table>'
        f"<p>Decisions: {escape(tally)}. Verdicts: {escape(ended)}.</p><p>Regret: {escape(regret)}</p>"
    )


def _table(report: Report) -> str:
    head = '<tr><th>idea</th><th>state</th><th class="n">S</th><th class="n">interval</th>'
    head += '<th class="n">forecast</th><th>decision</th></tr>'
    lines = []
    for row in report.rows:
        ratio = "" if row.log2 is None else ratio_text(2.0**row.log2)
        ends = "" if row.low is None or row.high is None else interval_text(2.0**row.low, 2.0**row.high)
        told = "" if row.forecast is None else ratio_text(2.0**row.forecast)
        state = row.verdict if row.state == "failed" and row.verdict else row.state
        cells = f"<td>{escape(row.idea)}</td><td>{escape(state)}</td>"
        cells += "".join(f'<td class="n">{cell}</td>' for cell in (ratio, ends, told))
        audit = " (audited)" if row.audited else ""
        lines.append(f'<tr>{cells}<td title="{escape(row.reason)}">{escape(row.decision)}{audit}</td></tr>')
    return f"<table>{head}{''.join(lines)}</table>"
