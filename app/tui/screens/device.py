"""The page Device."""

from __future__ import annotations

from ..page import Page


class DevicePage(Page):
    """Device."""
