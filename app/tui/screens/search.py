"""The page Search."""

from __future__ import annotations

from ..page import Page


class SearchPage(Page):
    """One search."""
