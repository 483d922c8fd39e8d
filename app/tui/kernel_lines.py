"""A kernel of a board as lines: what was measured of it last, every reading of it, and how its times moved."""

from __future__ import annotations

from ...store.models import Measurement
from ...tools.viewing.leaderboard import Board, Snapshot, Standing
from ...tools.words import time_text
from . import figures
from .lines import Cell, Line
from .node_lines import measurement_lines
from .table import Row

_SPARK = 24


def board_row(board: Board) -> Row:
    """A board in the list of boards."""
    cells: tuple[Cell, ...] = (
        board.task,
        board.device,
        (board.launch_mode, "dim"),
        str(board.kernels),
        (figures.ago(board.newest), "dim"),
    )
    return Row(board.key, cells)


def standing_row(one: Standing) -> Row:
    """A kernel in the table of a board."""
    place: Cell = ("-", "faint")
    if one.place is not None:
        place = (f"{'=' if one.tied else ''}{one.place}", "best" if one.place == 1 else "")
    told: Cell = (one.comparison, {"faster": "good", "slower": "bad"}.get(one.comparison, ""))
    if one.quarantine is not None:
        told = ("! quarantine", "warn")
    elif one.verdict != "ok":
        told = (one.verdict, "bad")
    elif "censored" in one.labels:
        told = ("censored", "dim")
    elif one.comparison == "none":
        told = ("ok", "good")
    floor = "" if one.percent_of_floor is None else f"{one.percent_of_floor:.0f}%"
    cells: tuple[Cell, ...] = (
        place,
        ((one.name, "strong" if one.place == 1 else ""), (f" {one.tunables}", "dim")),
        time_text(one.time_us),
        ("" if one.low_us is None or one.high_us is None else _spread(one), "dim"),
        figures.ratio_span(one.log2, one.log2_low, one.log2_high),
        told,
        (floor, ""),
        (one.effort, "dim"),
        (", ".join(one.labels), "warn"),
        (str(one.readings), "dim"),
        (one.language, "dim"),
        (figures.ago(one.created_at), "dim"),
        (figures.short(one.kernel_id), "dim"),
    )
    return Row(one.id, cells)


def _spread(one: Standing) -> str:
    """The half width of the time's interval, in percent."""
    assert one.high_us is not None and one.time_us is not None
    return f"±{100 * (one.high_us / one.time_us - 1):.1f}%" if one.time_us else ""


def kernel_lines(found: Snapshot, width: int) -> list[Line]:
    """All about the kernel under the cursor. Runs on the reader's thread."""
    if found.kernel is None or not found.history:
        return []
    kernel, history = found.kernel, found.history
    lines: list[Line] = [((kernel.name, "strong"), (f"  {kernel.language}  {kernel.id}", "dim"))]
    if kernel.tunables:
        text = "  ".join(f"{name}={value}" for name, value in kernel.tunables.items())
        lines.append((("tunables   ", "dim"), (text, "")))
    times = [one.time_us for one in reversed(history) if one.time_us is not None and one.verdict == "ok"]
    if len(times) > 1:
        low, high = min(times), max(times)
        spark = figures.sparkline([time - low for time in times[-_SPARK:]], top=max(high - low, 1e-9))
        lines.append(
            (("times      ", "dim"), (spark, "bar"), (f"  {time_text(low)} .. {time_text(high)}, newest right", "dim"))
        )
    lines += [(), (("Readings", "title"), (f"  {len(history)} on {history[0].device}, newest first", "dim"))]
    lines += [_reading_line(one, found.baselines) for one in history]
    return [*lines, *measurement_lines(history[0], width)]


def _reading_line(one: Measurement, names: dict[str, str]) -> Line:
    verdict = one.verdict if one.comparison == "none" or one.verdict != "ok" else one.comparison
    role = {"ok": "good", "faster": "good", "tie": "", "unclear": "", "slower": "bad"}.get(verdict, "bad")
    flags = ("  ! quarantine" if one.quarantine else "") + ("  censored" if one.censored else "")
    against = "" if one.baseline_id is None else f" against {names.get(one.baseline_id, one.baseline_id)}"
    return (
        (f"{figures.ago(one.created_at):>5}  ", "dim"),
        (f"{time_text(one.time_us):>8}  ", ""),
        figures.ratio_span(one.log2_speedup, one.log2_low, one.log2_high),
        (f" ({figures.interval(one.log2_low, one.log2_high)})" if one.log2_low is not None else "", "dim"),
        (f"  {verdict}", role),
        (flags, "warn"),
        (f"  {one.effort}{against}", "dim"),
    )
