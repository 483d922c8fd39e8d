"""The keys by name: what `keys` in the configuration may change."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from textual.binding import Binding

from ...store.errors import InputError
from .pages import PAGES


def key_names() -> dict[str, tuple[str, str]]:
    """The names of all key bindings, each with its keys and what it does."""
    from .app import Viewer
    from .canvas import Canvas
    from .dialogs import Confirm, Prompt
    from .filter import Filter
    from .help import HelpScreen
    from .page import Page

    for entry in PAGES:
        import_module(f".screens.{entry.module}", __package__)
    found: dict[str, tuple[str, str]] = {}
    for cls in (Viewer, *_with_below(Page), *_with_below(Canvas), Filter, Confirm, Prompt, HelpScreen):
        for binding in vars(cls).get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id is not None:
                found.setdefault(binding.id, (binding.key, binding.description))
    return found


def checked_keys(keys: Mapping[str, str]) -> dict[str, str]:
    """The mapping, if every name in it is one. Raises InputError."""
    known = key_names()
    for name in keys:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise InputError("no key has that name", value=name, next_step=f"{hint}Names: {', '.join(sorted(known))}.")
    return dict(keys)


def _with_below(cls: type[Any]) -> Iterator[type[Any]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _with_below(below)
