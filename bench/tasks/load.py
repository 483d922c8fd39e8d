"""Tasks from TOML: built-in ones, files, and the `[task]` tables of kernel headers."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...store.errors import InputError
from ...store.models import Case, Precision, Role, Task, Tensor
from ..header.expression import Expression, evaluate, is_name
from .dtypes import check_dtype, is_float, item_bytes
from .inputs import check_fill, fill_names
from .nearest import nearest_text
from .reference import check_reference
from .shapes import bytes_of

_TASK_KEYS = (
    "name",
    "title",
    "in",
    "out",
    "inout",
    "reference",
    "precision",
    "flops",
    "bytes",
    "data_dependent",
    "timed",
    "checked",
)
_ROLES: tuple[Role, ...] = ("in", "out", "inout")
_DEVICE_KINDS = ("cpu", "cuda")
_MAX_CASE_BYTES = 2**40
_SHOWN = 80


def load_task(name_or_path: str) -> Task:
    """The task of a built-in name, of a `.toml` file, or of a folder that holds a `task.toml`.

    Raises InputError: no such task (with the nearest names), no such file, or a file that is no task.
    """
    return resolve_task(name_or_path, None)


def resolve_task(spec: str | Mapping[str, Any], folder: Path | None) -> Task:
    """The task a kernel header names (built-in name or path, relative to `folder`) or spells out as a table.

    Without a folder also the problems of other benches, see `peers`.
    """
    if not isinstance(spec, str):
        where = f"the [task] table of {folder}" if folder is not None else "the [task] table"
        return task_from_table(spec, folder=folder, where=where)
    from .builtin import builtin_names, builtin_task

    if spec in builtin_names():
        return builtin_task(spec)
    path = Path(os.path.expanduser(spec))  # noqa: PTH111
    if folder is not None:
        path = folder / path
    if folder is None:
        from .peers import peer_task

        peer = peer_task(spec)
        if peer is not None:
            return peer
    # os.path, as Path raises for a name that no file can have, and such a name is just another one that is not there.
    if os.path.isfile(path / "task.toml"):  # noqa: PTH113
        return load_task_file(path / "task.toml")
    if path.suffix == ".toml" or os.path.isfile(path):  # noqa: PTH113
        return load_task_file(path)
    shown = spec if len(spec) <= _SHOWN else spec[:_SHOWN] + "…"
    raise InputError(
        "there is no such task, and no such file", value=shown, next_step=nearest_text(spec, builtin_names())
    )


def load_task_file(path: Path) -> Task:
    """The task of one TOML file. Raises InputError if the file cannot be read, is not TOML, or is no task."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("a task file cannot be read", value=f"{path}: {error}", next_step="Check the path.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError("a task file is not TOML", value=f"{path}: {error}", next_step="Correct that line.") from error
    table.setdefault("name", path.parent.name if path.name == "task.toml" else path.stem)
    return task_from_table(table, folder=path.parent, where=str(path))


def task_from_table(table: Mapping[str, Any], *, folder: Path | None, where: str) -> Task:
    """The task a table describes (keys: see kernel headers' `[task]`).

    folder: where a `file.py:function` reference is looked up; None: only `einsum:` references. where: what errors call
    the table. Raises InputError for unknown keys, names, dtypes, fills and expressions, and for cases that lack a size.
    """
    return _TableReader(where, folder).task(table)


class _TableReader:
    def __init__(self, where: str, folder: Path | None) -> None:
        self.where = where
        self.folder = folder

    def error(self, what: str, value: object, next_step: str) -> InputError:
        return InputError(f"{self.where}: {what}", value=value, next_step=next_step)

    def task(self, table: Mapping[str, Any]) -> Task:
        self.known_keys(table, _TASK_KEYS, "a task")
        name = self.text(table, "name")
        if not is_name(name):
            raise self.error("a task's name is no identifier", name, "Use letters, digits and underscores.")
        tensors = tuple(
            self.tensor(key, role, entry) for role in _ROLES for key, entry in self.tensor_tables(table, role)
        )
        if all(tensor.role == "in" for tensor in tensors):
            raise self.error("a task without outputs", name, 'Add out.NAME = { dtype = "f32", shape = ["N"] }.')
        flops, bytes_ = self.expression(table, "flops"), self.expression(table, "bytes")
        sizes = self.size_names(tensors, flops, bytes_)
        checked = self.cases(table.get("checked"), "checked", tensors, sizes)
        task = Task(
            name=name,
            title=self.text(table, "title", ""),
            tensors=tensors,
            precision=self.precision(table, tensors),
            **self.reference(table),
            checked=checked,
            timed=self.timed(table.get("timed"), tensors, list(checked[0].sizes)),
            flops=flops,
            bytes=bytes_,
            data_dependent=self.flag(table, "data_dependent"),
        )
        check_reference(task, self.where)
        self.check_cases(task)
        return task

    def known_keys(self, table: Mapping[str, Any], known: tuple[str, ...], of_what: str) -> None:
        for key in table:
            if key not in known:
                raise self.error(f"unknown key of {of_what}", key, nearest_text(key, known))

    def text(self, table: Mapping[str, Any], key: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if value is None:
            raise self.error("a task lacks a key", key, f'Add {key} = "…".')
        if not isinstance(value, str):
            raise self.error(f"{key} is not a text", value, f'Write {key} = "…".')
        return value

    def flag(self, table: Mapping[str, Any], key: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"{key} is neither true nor false", value, f"Write {key} = true, or leave it out.")
        return value

    def expression(self, table: Mapping[str, Any], key: str) -> str | None:
        value = table.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self.error(f"{key} is no expression", value, f'Write for example {key} = "2 * M * N * K".')
        return str(value)

    def tensor_tables(self, table: Mapping[str, Any], role: Role) -> list[tuple[str, Mapping[str, Any]]]:
        entries = table.get(role, {})
        if not isinstance(entries, Mapping) or not all(isinstance(entry, Mapping) for entry in entries.values()):
            raise self.error(
                f"{role} is no table of tensors", entries, f'Write {role}.NAME = {{ dtype = "f32", shape = ["N"] }}.'
            )
        return list(entries.items())

    def tensor(self, name: str, role: Role, entry: Mapping[str, Any]) -> Tensor:
        keys = ("dtype", "shape", "zero") if role == "out" else ("dtype", "shape", "fill")
        self.known_keys(entry, keys, f"tensor {name} ({role})")
        if not is_name(name):
            raise self.error("a tensor's name is no identifier", name, "Use letters, digits and underscores.")
        dtype = self.text(entry, "dtype")
        shape = entry.get("shape")
        good = isinstance(shape, list) and shape and all(isinstance(x, str | int) and x is not True for x in shape)
        if not good:
            raise self.error(f"the shape of {name} is no list of expressions", shape, 'Write shape = ["M", "K"].')
        return Tensor(
            name=name,
            role=role,
            dtype=check_dtype(dtype),
            shape=tuple(str(extent) for extent in shape or ()),
            fill=self.text(entry, "fill", "normal" if is_float(dtype) else "ints"),
            zero=self.flag(entry, "zero"),
        )

    def precision(self, table: Mapping[str, Any], tensors: tuple[Tensor, ...]) -> Precision | None:
        value = table.get("precision")
        floats = [tensor.dtype for tensor in tensors if tensor.role != "out" and is_float(tensor.dtype)]
        if value is None:
            # An einsum over floats sums products, so it cannot be exact; anything else without a precision is.
            if not self.text(table, "reference").startswith("einsum:") or not floats:
                return None
            multiply = min(floats, key=item_bytes)
            return Precision(multiply=multiply, accumulate="f64" if multiply == "f64" else "f32")
        if not isinstance(value, Mapping):
            raise self.error(
                "precision is no table", value, 'Write precision = { multiply = "f32", accumulate = "f32" }.'
            )
        self.known_keys(value, ("multiply", "accumulate"), "precision")
        multiply_name, accumulate_name = self.text(value, "multiply"), self.text(value, "accumulate")
        for dtype in (multiply_name, accumulate_name):
            if not is_float(check_dtype(dtype)):
                raise self.error("a precision must be a floating-point dtype", dtype, "Leave it out for exact tasks.")
        return Precision(multiply=multiply_name, accumulate=accumulate_name)

    def reference(self, table: Mapping[str, Any]) -> dict[str, str]:
        text = self.text(table, "reference")
        if text.startswith("einsum:"):
            return {"reference": text}
        file, colon, function = text.rpartition(":")
        if not colon or not file.endswith(".py") or not function.isidentifier():
            raise self.error("a reference in no known form", text, 'Write "einsum: mk,kn->mn" or "file.py:function".')
        if self.folder is None:
            raise self.error("a reference file, but no folder to look in", text, "Keep kernel and reference in files.")
        try:
            source = (self.folder / file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self.error("the reference file cannot be read", error, "It is looked up beside the task.") from error
        return {"reference": function, "reference_source": source}

    def size_names(self, tensors: tuple[Tensor, ...], flops: str | None, bytes_: str | None) -> list[str]:
        texts = [text for tensor in tensors for text in tensor.shape] + [text for text in (flops, bytes_) if text]
        names: dict[str, None] = {}
        for text in texts:
            try:
                found = Expression.parse(text).names
            except InputError as error:
                raise self.error(error.what, error.value, error.next_step) from error
            names.update(dict.fromkeys(sorted(found)))
        for tensor in tensors:
            if tensor.role != "out":
                names.update(dict.fromkeys(sorted(fill_names(tensor.fill))))
        clash = names.keys() & {tensor.name for tensor in tensors}
        if clash:
            raise self.error("a size and a tensor share a name", min(clash), "Rename one of them.")
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise self.error(
                "a tensor is declared twice", [tensor.name for tensor in tensors], "Use inout for both ways."
            )
        return list(names)

    def cases(self, value: Any, key: str, tensors: tuple[Tensor, ...], sizes: list[str]) -> tuple[Case, ...]:
        if not isinstance(value, list) or not value or not all(isinstance(entry, Mapping) for entry in value):
            example = ", ".join(f"{name} = 128" for name in sizes)
            raise self.error(f"{key} is no list of cases", value, f"Write {key} = [{{ {example} }}].")
        cases = [self.case(entry, key, tensors, sizes) for entry in value]
        order = list(cases[0].sizes)
        return tuple(Case(sizes={name: case.sizes[name] for name in order}, fill=case.fill) for case in cases)

    def case(self, entry: Mapping[str, Any], key: str, tensors: tuple[Tensor, ...], sizes: list[str]) -> Case:
        self.known_keys(entry, (*sizes, "fill"), f"a {key} case")
        for name in sizes:
            if name not in entry:
                raise self.error(f"a {key} case lacks a size", name, f"Give every case {', '.join(sizes)}.")
            value = entry[name]
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**63:
                raise self.error(f"size {name} of a {key} case is no positive integer", value, "Write for example 128.")
        fills = entry.get("fill", {})
        if not isinstance(fills, Mapping):
            raise self.error("fill of a case is no table", fills, 'Write fill = { x = "large" }.')
        self.known_keys(
            fills, tuple(tensor.name for tensor in tensors if tensor.role != "out"), f"fill of a {key} case"
        )
        return Case(
            sizes={name: entry[name] for name in entry if name != "fill"},
            fill={name: self.text(fills, name) for name in fills},
        )

    def timed(self, value: Any, tensors: tuple[Tensor, ...], sizes: list[str]) -> dict[str, tuple[Case, ...]]:
        if not isinstance(value, Mapping):
            return {"any": self.cases(value, "timed", tensors, sizes)}
        self.known_keys(value, _DEVICE_KINDS, "timed")
        if not value:
            raise self.error("timed holds no cases", value, "Add cpu = [{ … }] or cuda = [{ … }].")
        return {kind: self.cases(entry, "timed", tensors, sizes) for kind, entry in value.items()}

    def check_cases(self, task: Task) -> None:
        try:
            self.evaluate_cases(task)
        except InputError as error:
            raise self.error(error.what, error.value, error.next_step) from error

    def evaluate_cases(self, task: Task) -> None:
        for case in (*task.checked, *(case for cases in task.timed.values() for case in cases)):
            total = 0
            for tensor in task.tensors:
                total += bytes_of(tensor, case)
                if tensor.role != "out":
                    check_fill(case.fill.get(tensor.name, tensor.fill), tensor, case)
            if total > _MAX_CASE_BYTES:
                raise InputError(
                    f"case {case.name} needs more than a TiB", value=total, next_step="Make its sizes smaller."
                )
            for text, what in ((task.flops, "flops"), (task.bytes, "bytes")):
                if text is not None:
                    evaluate(text, case.sizes, what=what, minimum=0, case=case.name)
