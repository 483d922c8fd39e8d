"""The parts of the page Search: its head, the tree, the log of decisions; as cells and lines, without the store."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from ...store.searches import SearchNode
from ...tools.viewing.node import DecisionLine
from ...tools.viewing.searches import SearchLine
from ...tools.viewing.tree import TreeLine
from . import figures
from .canvas import Text
from .lines import Cell, Column, Line, joined
from .node_lines import MARKS, decision_span
from .table import Row, Table

_GUIDES = {"|": "│ ", " ": "  ", "+": "├ ", "L": "└ "}
_MOST_GUIDES = 6
"""Levels that are drawn; deeper ones get their number."""


class Head(Text, can_focus=False):
    """What a search is, where it stands, and what it has spent."""

    DEFAULT_CSS = "Head { height: auto; max-height: 3; padding: 0 1; overflow: hidden; }"


class TreeTable(Table):
    """The tree."""

    HELP = (
        "The candidates of a search below those they came from. S is against the seed: as measured, or after ~ as "
        "forecast. What was dropped or failed is folded into one line.\n\n"
        + "\n".join(f"{glyph}  {words}" for glyph, _, words in MARKS.values())
    )
    COLUMNS = (
        Column("candidate", 20, grow=1),
        Column("S", 6, right=True),
        Column("outcome", 10, drop=1),
    )
    EMPTY = (
        "No search to show. Choose one in Searches (key 1), or begin one:",
        "",
        "kforecast search run FILE --budget 50m,5min",
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "fold", "Fold", show=False, id="fold"),
        Binding("right,l", "unfold_or_down", "Unfold", show=False, id="unfold"),
        Binding("left,h", "fold_or_up", "Fold, or to the parent", show=False, id="fold-up"),
    ]

    class Folded(Message):
        """A line is to be folded or unfolded. want: to what; None: the other way."""

        def __init__(self, key: str, folded: bool | None) -> None:
            super().__init__()
            self.key, self.folded = key, folded

    class Steered(Message):
        """The user moved the cursor."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: dict[str, TreeLine] = {}

    def _go(self, number: int) -> None:
        self.post_message(self.Steered())
        super()._go(number)

    @property
    def line(self) -> TreeLine | None:
        """The line under the cursor."""
        return self.lines.get(self.key or "")

    def action_fold(self) -> None:
        line = self.line
        if line is not None and (line.folded is not None or line.pruned):
            self.post_message(self.Folded(line.key, None))

    def action_choose(self) -> None:
        line = self.line
        if line is not None and line.pruned:
            self.post_message(self.Folded(line.key, False))
        else:
            super().action_choose()

    def action_unfold_or_down(self) -> None:
        line = self.line
        if line is None:
            return
        if line.folded:
            self.post_message(self.Folded(line.key, False))
        elif line.folded is False:
            self._go(self.cursor + 1)

    def action_fold_or_up(self) -> None:
        line = self.line
        if line is None:
            return
        if line.folded is False:
            self.post_message(self.Folded(line.key, True))
            return
        depth = len(line.guides)
        for number in range(self.cursor - 1, self.rows.first - 1, -1):
            row = self.row(number)
            above = None if row is None else self.lines.get(row.key)
            if above is not None and len(above.guides) < depth:
                self._go(number)
                return


class LogTable(Table):
    """The decisions."""

    HELP = (
        "What was decided of each candidate, newest first: measure it on the device, trust its forecast, or drop it. "
        "Enter goes to the candidate."
    )
    COLUMNS = (
        Column("when", 7, right=True),
        Column("cand.", 6, right=True),
        Column("decision", 8),
        Column("audit", 5, drop=1),
        Column("because", 20, grow=1),
    )
    EMPTY = ("No decisions yet.",)


def tree_row(line: TreeLine) -> Row:
    """A line of the tree as a row."""
    guides = line.guides
    hidden = ""
    if len(guides) > _MOST_GUIDES:
        hidden, guides = f"{len(guides) - _MOST_GUIDES}… ", guides[-_MOST_GUIDES:]
    lead: Line = ((hidden + "".join(_GUIDES[one] for one in guides), "faint"),)
    if line.pruned is not None:
        dropped, failed = line.pruned
        parts = [f"{count} {word}" for count, word in ((dropped, "dropped"), (failed, "failed")) if count]
        return Row(line.key, ((*lead, ("⋯ ", "dim"), (", ".join(parts), "dim")), "", ""))
    glyph, role, _ = MARKS[line.mark]
    twig = "▸ " if line.folded else ""
    name: Line = (*lead, (f"{glyph} ", role), (twig, "dim"), (line.idea or "no idea given", _shade(line)))
    if line.folded:
        best = f", best {figures.ratio(line.best_inside)}" if line.best_inside is not None else ""
        name = (*name, (f"  {line.inside} below{best}", "dim"))
    s: Cell = figures.ratio_span(line.log2)
    if line.log2 is None and line.forecast is not None:
        s = (f"~{figures.ratio(line.forecast)}", "forecast")
    if line.mark == "best":
        s = (figures.ratio(line.log2), "best")
    return Row(line.key, (name, s, _outcome(line)))


def _shade(line: TreeLine) -> str:
    return {"dropped": "dim", "best": "strong", "failed": "dim"}.get(line.mark, "")


def _outcome(line: TreeLine) -> Cell:
    if line.mark == "failed":
        return (line.verdict or "failed", "bad")
    return (line.mark, MARKS[line.mark][1])


def log_row(made: DecisionLine, number: int | None) -> Row:
    """A decision as a row."""
    return Row(
        f"{made.node_id} {made.ordinal}",
        (
            (figures.clock(made.when), "dim"),
            "" if number is None else str(number),
            decision_span(made.decision),
            ("audit", "warn") if made.audited else "",
            made.reason,
        ),
    )


def head_lines(line: SearchLine, best: SearchNode | None, width: int) -> list[Line]:
    """What a search is, where it stands, what it has spent. best: the incumbent, where it is not the seed."""
    search, curve = line.search, line.curve
    state = (*figures.state_line(search.state, orphaned=line.orphaned), ("  ", ""), (search.task_name, "strong"))
    first: list[Line] = [
        (*state, (f" on {search.device}", "")),
        ((f"{search.policy}, {search.generator}, {search.forecaster}", "dim"),),
        ((figures.who(line.worker), "dim"),) if line.worker else (),
        ((search.reason, "bad" if search.state == "failed" else "dim"),) if search.reason else (),
        ((search.id, "faint"),),
    ]
    rose: Line = () if curve is None else ((figures.sparkline(curve.sampled(16)), "good" if curve.steps else "faint"),)
    second: list[Line] = [_best(best), rose]
    if curve is not None and curve.deferral_rate is not None:
        made = sum(curve.decisions.values())
        second.append((("deferred ", "dim"), (figures.percent(curve.deferral_rate), ""), (f" of {made:,}", "dim")))
    second += [((f"{count:,} {name}", "dim"),) for name, count in search.counts.items() if count]
    third: list[Line] = []
    for name, limit in search.limits.items():
        used = search.spent.get(name, 0.0)
        words = f" {figures.amount(used)} of {figures.amount(limit)} {figures.LIMITS.get(name, (name, name))[1]}"
        third.append((*figures.gauge(used / limit if limit else 0.0, 10), (words, "")))
    for name, used in search.spent.items():
        if used and name not in search.limits:
            third.append(((f"{figures.amount(used)} {figures.LIMITS.get(name, (name, name))[1]}", "dim"),))
    return [joined(first, width), joined(second, width), joined(third, width)]


def _best(best: SearchNode | None) -> Line:
    if best is None or best.log2_speedup is None:
        return (("nothing measured is faster than the seed", "dim"),)
    ends = figures.interval(best.log2_low, best.log2_high)
    return ("★ best ", "best"), (f"S {figures.ratio(best.log2_speedup)}", "best"), (f"  {ends}", "dim")
