"""The one seam between errors and clients: what a tool raises becomes a text that its caller can act on."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

from ...store.errors import KforecastError
from ...store.paths import runtime_dir
from .wording import for_agents

_MOST_BYTES = 1 << 20
_log = logging.getLogger(__name__)


def log_path() -> Path:
    """Where this server writes the tracebacks of its own faults."""
    return runtime_dir() / "mcp.log"


def as_tool_error(tool: str, error: BaseException) -> ToolError:
    """What a client reads: what happened, which value, what to do next.

    An error that is neither ours nor about the arguments is our fault: it goes to the log with its traceback.
    """
    if isinstance(error, KforecastError):
        return ToolError(for_agents(str(error)))
    if isinstance(error, ValidationError):
        return ToolError(_about_arguments(error))
    return ToolError(_our_fault(tool, error))


def unknown_argument(tool: str, name: str, known: Iterable[str]) -> ToolError:
    """The refusal of an argument that the tool does not have: ignored, it would answer another question."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]}? " if near else ""
    return ToolError(f"{tool} has no such argument: {name[:80]}. {hint}It takes {', '.join(names)}.")


def _about_arguments(error: ValidationError) -> str:
    """The first three problems, without the library's own links."""
    told = []
    for problem in error.errors(include_url=False)[:3]:
        where = ".".join(str(part) for part in problem["loc"])
        shown = repr(problem["input"])
        told.append(f"{where}: {problem['msg']}, not {shown if len(shown) <= 80 else shown[:77] + '...'}")
    return f"The arguments do not fit: {'; '.join(told)}. Correct them and call again."


def _our_fault(tool: str, error: BaseException) -> str:
    _log.error("%s failed", tool, exc_info=error)
    return (
        f"A fault in kforecast, not in what you gave: {type(error).__name__} in {tool}. Trying once more may help; its "
        f"traceback is at the end of {log_path()}, please tell the person whose machine this is."
    )


def log_to_file() -> None:
    """Keep the tracebacks of faults in the log file, at most a mebibyte of them, and nothing else anywhere."""
    path = log_path()
    if any(isinstance(known, logging.FileHandler) and known.baseFilename == str(path) for known in _log.handlers):
        return
    if path.exists() and path.stat().st_size > _MOST_BYTES:
        path.unlink()
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter(f"%(asctime)s [{os.getpid()}] %(message)s"))
    _log.addHandler(handler)
    _log.propagate = False
