"""Work that blocks, off the event loop. What it needs is imported there, so a starting server need not load it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio.to_thread

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def in_thread(work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
    """The result of a short piece of blocking work. A cancelled caller gets it, too: nothing it made is forgotten."""
    return await anyio.to_thread.run_sync(functools.partial(work, *args, **kwargs))
