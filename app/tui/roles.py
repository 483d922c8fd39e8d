"""Roles: what a piece of text is, never which colour it has. Themes decide that; words or a glyph say it, too."""

from __future__ import annotations

ROLES: dict[str, str] = {
    "dim": "color: $text-muted; &:ansi { text-style: dim; }",
    "faint": "color: $text-disabled; &:ansi { text-style: dim; }",
    "strong": "text-style: bold;",
    "head": "color: $text-muted; text-style: bold; &:ansi { text-style: bold underline; }",
    "title": "color: $text-primary; text-style: bold;",
    "key": "color: $text-accent; text-style: bold;",
    "good": "color: $text-success;",
    "bad": "color: $text-error;",
    "warn": "color: $text-warning;",
    "best": "color: $text-accent; text-style: bold;",
    "busy": "color: $text-secondary;",
    "forecast": "color: $text-primary;",
    "mark": "color: $accent; text-style: bold;",
    "cursor": "background: $primary-muted; &:ansi { text-style: reverse; }",
    "cursor-away": "background: $surface-lighten-1; &:ansi { text-style: bold; }",
    "bar": "color: $primary;",
    "bar-away": "color: $panel-lighten-2; &:ansi { text-style: dim; }",
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


def stylesheet() -> str:
    """The rules of all roles, for every widget that draws lines."""
    rules = (f"    .role--{name} {{ {css} }}" for name, css in ROLES.items())
    return "Canvas {\n" + "\n".join(rules) + "\n}\n"
