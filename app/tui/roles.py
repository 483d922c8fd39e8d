"""Roles: what a piece of text is, never which colour it has. Themes decide that; words or a glyph say it, too."""

from __future__ import annotations

ROLES: dict[str, str] = {
    "dim": "color: $text-muted;",
    "faint": "color: $text-disabled;",
    "strong": "text-style: bold;",
    "head": "color: $text-muted; text-style: bold;",
    "title": "color: $text-primary; text-style: bold;",
    "key": "color: $text-accent; text-style: bold;",
    "good": "color: $text-success;",
    "bad": "color: $text-error;",
    "warn": "color: $text-warning;",
    "best": "color: $text-accent; text-style: bold;",
    "busy": "color: $text-secondary;",
    "forecast": "color: $text-primary;",
    "mark": "color: $accent; text-style: bold;",
    "cursor": "background: $primary-muted;",
    "cursor-away": "background: $surface-lighten-1;",
    "bar": "color: $primary;",
    "bar-away": "color: $panel-lighten-2;",
    "added": "color: $text-success;",
    "removed": "color: $text-error;",
    "code-keyword": "color: $text-primary;",
    "code-type": "color: $text-secondary;",
    "code-text": "color: $text-success;",
    "code-number": "color: $text-warning;",
    "code-comment": "color: $text-muted; text-style: italic;",
    "code-directive": "color: $text-accent;",
}
"""Role -> how Textual's stylesheet writes it."""


_ANSI = {
    "dim": "color: ansi_default; text-style: dim;",
    "faint": "color: ansi_default; text-style: dim;",
    "head": "color: ansi_default; text-style: bold underline;",
    "cursor": "text-style: reverse;",
    "cursor-away": "background: ansi_default; text-style: bold;",
    "bar-away": "color: ansi_default; text-style: dim;",
}
"""Where the terminal brings its own sixteen colours, some roles are better told by weight."""


def stylesheet() -> str:
    """The rules of all roles, for every widget that draws lines."""
    rules = [f"Canvas .role--{name} {{ {css} }}" for name, css in ROLES.items()]
    rules += [f"Canvas:ansi .role--{name} {{ {css} }}" for name, css in _ANSI.items()]
    return "\n".join(rules)
