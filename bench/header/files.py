"""Reading kernel files and what they include: text only, of bounded size, from allowed folders only."""

from __future__ import annotations

import difflib
import posixpath
import re
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...store.errors import InputError
from .tokens import tokens

if TYPE_CHECKING:
    from ...store.models import Language

MAX_BYTES = 1_000_000
MAX_INCLUDES = 64
SUFFIXES: dict[str, Language] = {
    ".c": "c",
    ".cc": "c",
    ".cpp": "c",
    ".cxx": "c",
    ".cu": "cuda",
    ".py": "torch",
}
"""By suffix; a `.py` file is `triton` where a launched function is decorated with `jit`."""
CPP_SUFFIXES = (".cc", ".cpp", ".cxx")

_INCLUDE = re.compile(r'#\s*include\s*"([^"\n]+)"')


def language_of_file(path: Path) -> Language:
    """The language by suffix. Raises InputError for a suffix we do not know."""
    language = SUFFIXES.get(path.suffix.lower())
    if language is None:
        raise InputError(
            "no kernel language is known by this suffix",
            value=path.name,
            next_step=f"Use one of {' '.join(SUFFIXES)}, or give the language.",
        )
    return language


def read_source(path: Path, what: str = "kernel file") -> str:
    """The text of a file without byte order mark, line ends as they are.

    Raises InputError where it is missing, no regular file, unreadable, empty, above 1 MB, or not UTF-8 text.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise InputError(f"the {what} is {kind}", value=path, next_step="Give the path of a source file.")
        if status.st_size > MAX_BYTES:
            raise InputError(
                f"the {what} is too large: {status.st_size} bytes",
                value=path,
                next_step=f"A kernel's source has at most {MAX_BYTES} bytes; move tables and data out of it.",
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"the {what} does not exist", value=path, next_step=_neighbour(path)) from None
    except PermissionError:
        raise InputError(f"the {what} may not be read", value=path, next_step="Change its permissions.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL inside the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        shown = str(path).encode("unicode_escape").decode()[:200]
        raise InputError(
            f"the {what} cannot be read: {reason}", value=shown, next_step="Give the path of a source file."
        ) from None
    return check_source(data, what, str(path))


def check_source(data: bytes, what: str, name: str) -> str:
    """Bytes as source text, checked as `read_source` says."""
    if len(data) > MAX_BYTES:
        raise InputError(
            f"the {what} is too large: {len(data)} bytes",
            value=name,
            next_step=f"A kernel's source has at most {MAX_BYTES} bytes; move tables and data out of it.",
        )
    if b"\0" in data:
        raise InputError(
            f"the {what} is binary: it holds NUL bytes",
            value=name,
            next_step="Give the source text, not a build of it.",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"the {what} is not UTF-8 text (byte {error.start})", value=name, next_step="Save it as UTF-8."
        ) from None
    if not text.strip():
        raise InputError(f"the {what} is empty", value=name, next_step="Give a file that holds a kernel.")
    return text


def read_includes(
    source: str, declared: Sequence[str], folder: Path | None, roots: Sequence[Path] = ()
) -> dict[str, str]:
    """The local files a C or CUDA source needs, by their path relative to `folder` with `/`.

    declared: the header's `include`, each of which must exist. `#include "…"` of the source and of included files is
    followed where such a file lies beside the including one; others are left to the compiler. A file must lie within
    `folder`, links followed, or within one of `roots` (then its name may start with `../`).
    Raises InputError for a forbidden path, an unreadable file, or more than 64 files.
    """
    if folder is None:
        if declared:
            raise InputError(
                "source text without a file has no folder to include from",
                value=declared[0],
                next_step="Save it as a file beside what it includes, and give its path.",
            )
        return {}
    allowed = tuple(root.resolve() for root in (folder, *roots))
    found: dict[str, str] = {}
    seen: set[str] = set()
    pending = deque([(name, True) for name in declared] + [(name, False) for name in _quoted(source)])
    while pending:
        name, required = pending.popleft()
        relative = posixpath.normpath(name)
        if relative in seen:
            continue
        seen.add(relative)
        path = folder / relative
        if not required and not _is_file(path):
            continue
        if posixpath.isabs(name) or "\\" in name or not _within(path, allowed):
            raise InputError(
                "an include lies outside the kernel's folder",
                value=name,
                next_step="Put it beside the kernel file, or into a folder below.",
            )
        if len(found) == MAX_INCLUDES:
            raise InputError("too many includes", value=name, next_step=f"Use at most {MAX_INCLUDES} files.")
        found[relative] = read_source(path, "included file")
        base = posixpath.dirname(relative)
        pending.extend((posixpath.join(base, inner), False) for inner in _quoted(found[relative]))
    return dict(sorted(found.items()))


def _quoted(source: str) -> Iterator[str]:
    for token in tokens(source):
        match = _INCLUDE.match(token.text) if token.kind == "directive" else None
        if match is not None:
            yield match[1]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _within(path: Path, allowed: Sequence[Path]) -> bool:
    try:
        resolved = path.resolve()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        return False
    return any(resolved.is_relative_to(root) for root in allowed)


def _neighbour(path: Path) -> str:
    """A next step for a missing file: the file beside it whose name is most like it."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix.lower() in SUFFIXES]
    except OSError:
        return f"There is no folder {path.parent} either: check the path."
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    return f"Did you mean {path.parent / close[0]}?" if close else "Check the path."
