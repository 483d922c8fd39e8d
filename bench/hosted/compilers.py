"""Compilers that a program starts while it runs (Triton's JIT, `torch.compile`): only where it is built, never where it
is measured.

A process that is measured may start no program. Where it asks for a compiler it says so and ends, as with extensions:
the program is called once in a building process, and what that leaves in its cache folders is what the measured ones
start with. What programs are asked without making anything (`ptxas --version`, before Triton looks into its cache; a
Python that tries to load a library, before `torch.compile` does) is kept beside it and told again.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLACE = "@the cache folder@"
"""Stands in kept files for a folder that each process has elsewhere."""
_COMPILER = re.compile(r"(?:.*-)?(?:ptxas|nvcc|cicc|fatbinary|gcc|g\+\+|cc|c\+\+|clang|clang\+\+|ninja|ld)(?:-[\w.]+)?")
_QUESTIONS = re.compile(r"--?version|-[vVp]|--help|-dump\w+|-print-[\w=.+-]+")


def install(answers: Path, *, building: bool, need: Callable[[str], None]) -> None:
    """Put our own step before `subprocess`, in the process that is going to load the program.

    answers: the file of what programs said, in the process's cache folder. need: called with what may not be made
    here, in words; does not return.
    """
    rename_in_groups(answers.parent, PLACE, str(answers.parent))
    kept: dict[str, list[Any]] = json.loads(answers.read_text()) if answers.exists() else {}
    run, begin, home = subprocess.run, subprocess.Popen.__init__, str(answers.parent.parent)

    @functools.wraps(run)
    def answered(*given: Any, **named: Any) -> Any:
        words = _words(given[0] if given else named.get("args"))
        asks = _asks(words)
        key = json.dumps(words).replace(home, "~")
        if asks and not building and key in kept:
            return _told(words, kept[key], named)
        result = run(*given, **named)
        if asks and building:
            kept[key] = [result.returncode, _text(result.stdout), _text(result.stderr)]
            answers.write_text(json.dumps(kept))
        return result

    @functools.wraps(begin)
    def begun(self: Any, *given: Any, **named: Any) -> None:
        words = _words(given[0] if given else named.get("args"))
        if not building and words and _COMPILER.fullmatch(Path(words[0]).name):
            need(f"what {Path(words[0]).name} makes")
        begin(self, *given, **named)

    os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"  # whose key takes a compiler each time
    subprocess.run = answered
    subprocess.Popen.__init__ = begun  # type: ignore[method-assign]


def rename_in_groups(folder: Path, old: str, new: str) -> None:
    """Put one path for another into Triton's lists of the files of a kernel, which name them whole."""
    for path in folder.rglob("__grp__*"):
        text = path.read_text()
        if old in text:
            path.write_text(text.replace(old, new))


def _asks(words: list[str]) -> bool:
    """Whether a command only wants to know something."""
    tries = len(words) == 3 and words[0] == sys.executable and words[1] == "-c"
    return tries or (len(words) > 1 and all(_QUESTIONS.fullmatch(word) for word in words[1:]))


def _words(command: Any) -> list[str]:
    """A command as its words; none for what is no command."""
    if isinstance(command, str | bytes | os.PathLike):
        return os.fsdecode(command).split()
    return [os.fsdecode(word) for word in command] if isinstance(command, list | tuple) else []


def _text(said: Any) -> str | None:
    return said.decode(errors="replace") if isinstance(said, bytes) else said


def _told(words: list[str], kept: list[Any], named: dict[str, Any]) -> subprocess.CompletedProcess[Any]:
    """The kept answer, as text or bytes as it was asked for."""
    code, *said = kept
    if not any(named.get(name) for name in ("text", "encoding", "errors", "universal_newlines")):
        said = [None if one is None else one.encode() for one in said]
    result: subprocess.CompletedProcess[Any] = subprocess.CompletedProcess(words, code, *said)
    if named.get("check"):
        result.check_returncode()
    return result
