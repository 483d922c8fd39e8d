"""Kernels as text that can be edited: header and code apart, and from edited text back to a kernel."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ....bench.header.block import C_OPENING, PYTHON_OPENING
from ....bench.header.load import LoadedKernel, load_kernel
from ....store.errors import InputError
from ....store.models import Kernel, Task

_OPTIONS = re.compile(r"^[ \t]*options[ \t]*=[ \t]*\[(?P<list>[^\]]*)\][^\n]*\n", re.MULTILINE)
_PYTHON_HEADER = re.compile(rf"^{re.escape(PYTHON_OPENING)}[^\n]*\n(?:#[^\n]*\n)*?# ///[ \t]*(?:\n|\Z)", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


@dataclass(frozen=True)
class Text:
    """A kernel's source: its header comment and all before it ('' for a bare file), and its code. options: the
    compiler's.
    """

    header: str
    code: str
    options: tuple[str, ...] = ()

    def with_code(self, code: str) -> Text:
        """The same with other code."""
        return replace(self, code=code)

    def with_options(self, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Text:
        """The same with options added and removed, in the header too where there is one."""
        gone = set(remove)
        kept = [option for option in self.options if option not in gone]
        options = (*kept, *(option for option in add if option not in kept))
        header = self.header
        if header:
            listed = ", ".join(f'"{option}"' for option in options)
            line = f"options = [{listed}]\n" if options else ""
            header = _OPTIONS.sub("", header)
            place = _TABLE.search(header)
            at = place.start() if place is not None else header.rindex("*/")
            header = header[:at] + line + header[at:]
        return Text(header, self.code, options)


def text_of(kernel: Kernel) -> Text:
    """The kernel's source taken apart."""
    if kernel.language in ("triton", "torch"):
        found = _PYTHON_HEADER.search(kernel.source)
        end = 0 if found is None else found.end()
        return Text(kernel.source[:end], kernel.source[end:], kernel.options)
    if not kernel.source.startswith(C_OPENING):
        return Text("", kernel.source, kernel.options)
    end = kernel.source.index("*/") + 2
    return Text(kernel.source[:end], kernel.source[end:], kernel.options)


def kernel_of(text: Text, parent: Kernel, task: Task) -> Kernel:
    """The kernel of an edited text: like its parent in all that the text does not say, tunable values included.

    Raises InputError for a text that is no kernel of this task.
    """
    if text == text_of(parent):
        return parent
    if not text.header:
        return _remade(parent, source=text.code, options=text.options)
    loaded = loaded_from(text.header + text.code, parent, task, text.options)
    kept = {name: value for name, value in parent.tunables.items() if value in loaded.tune.values.get(name, ())}
    try:
        kernel = loaded.configured(kept)
    except InputError:
        kernel = loaded.kernel
    return _remade(kernel, name=parent.name, toolchain=parent.toolchain)


def loaded_from(source: str, parent: Kernel, task: Task, options: tuple[str, ...]) -> LoadedKernel:
    """A source text as `load_kernel` reads it, with the parent's includes. options: all there should be in the end."""
    with tempfile.TemporaryDirectory(prefix="kforecast-edit-") as folder:
        for name, content in parent.includes.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return load_kernel(
            source if "\n" in source else source + "\n",
            resolve_task=lambda spec, where: task,
            language=parent.language,
            task=task,
            options=options,
            roots=(Path(folder),) if parent.includes else (),
        )


def _remade(kernel: Kernel, **changes: object) -> Kernel:
    fields: dict[str, object] = {
        name: getattr(kernel, name)
        for name in (
            *("language", "name", "source", "launches", "task_id", "includes", "options", "tunables", "scratch"),
            "toolchain",
        )
    }
    return Kernel.make(**{**fields, **changes})  # type: ignore[arg-type]


def tuned(kernel: Kernel, tunables: dict[str, int]) -> Kernel:
    """The kernel with other tunable values, which the caller took from its header."""
    return _remade(kernel, tunables=tunables)
