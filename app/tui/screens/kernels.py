"""The page Kernels."""

from __future__ import annotations

from ..page import Page


class KernelsPage(Page):
    """Kernels."""
