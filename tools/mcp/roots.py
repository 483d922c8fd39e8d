"""Which files a client may name: those in the allowed folders, links followed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...store.errors import InputError


@dataclass(frozen=True)
class Roots:
    """The allowed folders, as they are once links are followed."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, named: Sequence[Path]) -> Self:
        """The working directory and the folders named. Raises InputError for one that is no folder.

        A client that starts its servers in `/` does not mean the whole file system: `/` counts only where it is named.
        """
        folders = [] if Path.cwd() == Path("/") else [Path.cwd()]
        for path in named:
            folder = path.expanduser()
            if not folder.is_dir():
                raise InputError("a root is no folder", value=path, next_step="Name a folder that exists.")
            folders.append(folder)
        return cls(tuple(dict.fromkeys(folder.resolve() for folder in folders)))

    def admit(self, path: Path) -> None:
        """Raise InputError unless the file lies in one of the folders, wherever links lead."""
        try:
            place = path.expanduser().resolve()
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):  # who reads it says so better
                place.stat()
        except (OSError, RuntimeError, ValueError) as error:
            shown = str(path).encode("unicode_escape").decode()[:200]
            raise InputError(f"the path cannot be followed ({error})", value=shown, next_step=_STEP) from None
        if not any(place.is_relative_to(folder) for folder in self.folders):
            allowed = ", ".join(map(str, self.folders)) or "none"
            raise InputError(
                "the file lies outside the folders that this server may read",
                value=str(path)[:200],
                next_step=f"{_STEP} Allowed: {allowed}. A person can add one: `kforecast mcp --root DIR`.",
            )


_STEP = "Give a path in an allowed folder, an id k_..., or the source text itself."
