"""The page Searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import ComposeResult

from ....store import searches
from ....store.database import Store
from ..canvas import Row, Rows, Table
from ..lines import Column
from ..page import Page


class SearchesPage(Page):
    """Searches."""

    HELP = "All searches."

    def body(self) -> ComposeResult:
        yield Table(id="searches", columns=(Column("search", 22), Column("state", 10), Column("task", 10, grow=1)))

    def question(self) -> Callable[[Store], Any] | None:
        def q(store: Store) -> Rows:
            found = searches.recent(store, 50)
            return Rows(len(found), 0, tuple(Row(s.id, (s.id, s.state, s.task_name)) for s in found))

        return q

    def show(self, answer: Any) -> None:
        self.query_one(Table).show(answer)
