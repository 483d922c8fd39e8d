"""The one seam between errors and clients: what a tool raises becomes a text that its caller can act on."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ...store.errors import KforecastError, refused_by_system
from ...store.paths import runtime_dir
from . import arguments
from .wording import for_agents

_MOST_BYTES = 1 << 20
_SHOWN = 80
_OTHER_TYPE = ("string_type", "list_type", "model_type", "dict_type")
_log = logging.getLogger(__name__)


def log_path() -> Path:
    """Where this server writes the tracebacks of its own faults."""
    return runtime_dir() / "mcp.log"


def as_tool_error(tool: str, error: BaseException) -> ToolError:
    """What a client reads: what happened, which value, what to do next.

    An error that is neither ours, nor the system's (a full disk), nor about the arguments is our fault: it goes to the
    log with its traceback.
    """
    told = error if isinstance(error, KforecastError) else refused_by_system(error)
    if told is not None:
        return ToolError(for_agents(str(told)))
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
    """The first three problems, without the library's own links and words for types."""
    problems: dict[Any, list[ErrorDetails]] = {}
    for problem in error.errors(include_url=False):
        problems.setdefault(problem["loc"][:1], []).append(problem)
    told = [told for of_argument in problems.values() for told in _about_argument(of_argument)]
    return f"The arguments do not fit: {'; '.join(told[:3])}. Correct them and call again."


def _about_argument(problems: list[ErrorDetails]) -> list[str]:
    """The problems of one argument. Where it may be of several types, those of the type that was meant."""
    branches = {problem["loc"][1:2] for problem in problems}
    several = len(branches) > 1 and not any(isinstance(part, int) for branch in branches for part in branch)
    meant = [problem for problem in problems if problem["type"] not in _OTHER_TYPE] or problems[:1]
    told = []
    for problem in meant if several else problems:
        path = [part for place, part in enumerate(problem["loc"]) if not (several and place == 1)]
        shown = "" if problem["type"] == "missing" else f", not {_shortened(repr(problem['input']))}"
        told.append(f"{'.'.join(map(str, path))}: {_wanted(problem)}{shown}")
    return told


def _wanted(problem: ErrorDetails) -> str:
    """What should have been given."""
    named = getattr(arguments, str(problem.get("ctx", {}).get("class_name")), None)
    if isinstance(named, type) and issubclass(named, BaseModel):
        return f"should be an object with {', '.join(named.model_fields)}"
    return problem["msg"].replace("Tuple should have", "The list should have").replace(" after validation", "")


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


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
