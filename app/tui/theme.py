"""Colours: two calm themes of ours beside Textual's, and plain ANSI for terminals that bring their own."""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES, Theme

from ...store.errors import InputError

DEFAULT = "kforecast"

THEMES: tuple[Theme, ...] = (
    Theme(
        name="kforecast",
        dark=True,
        primary="#6ea8d8",
        secondary="#74c0b8",
        accent="#e0b35c",
        success="#86b97a",
        warning="#d9a15a",
        error="#d8787c",
        foreground="#d5d9de",
        background="#14171b",
        surface="#1a1e23",
        panel="#20252b",
        variables={"block-cursor-background": "#2c4258", "border": "#39414a", "border-blurred": "#2a3037"},
    ),
    Theme(
        name="kforecast-light",
        dark=False,
        primary="#2f6ea3",
        secondary="#23796f",
        accent="#9a6a00",
        success="#3d7a2e",
        warning="#a55f00",
        error="#b3363c",
        foreground="#22272c",
        background="#fbfaf7",
        surface="#f3f1ec",
        panel="#e9e6df",
        variables={"border": "#b9b4a8", "border-blurred": "#d6d1c6"},
    ),
)


def checked_theme(name: str | None) -> str:
    """The name, if it is a theme's; ours for None. Raises InputError."""
    known = [*(theme.name for theme in THEMES), *BUILTIN_THEMES]
    if name is not None and name not in known:
        raise InputError("there is no such theme", value=name, next_step=f"Themes: {', '.join(known)}.")
    return name or DEFAULT
