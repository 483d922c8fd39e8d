"""The kernel header as a model: what a kernel file says of its task, launches, scratch memory, options and tunables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from ...store.errors import InputError
from ...store.models import Dtype, Launch, Scratch, Task
from .block import HeaderBlock
from .configure import Tune
from .entry import is_type, split_entry
from .expression import Expression
from .names import CONSTANTS, check_clashes, check_known, nearest, suggestion

MAX_LAUNCHES = 64
MAX_ARGUMENTS = 256


def _expression_text(value: object) -> object:
    """TOML may give an integer where an expression stands; a boolean stays, and is refused as no text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Expression = Annotated[StrictStr, BeforeValidator(_expression_text)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LaunchPart(_Part):
    """One `[[launch]]` table."""

    entry: StrictStr
    args: tuple[_Expression, ...] = Field(max_length=MAX_ARGUMENTS)
    grid: tuple[_Expression, ...] = Field(default=("1",), min_length=1, max_length=3)
    block: tuple[_Expression, ...] = Field(default=("1",), min_length=1, max_length=3)
    smem: _Expression = "0"
    constexpr: dict[str, _Expression] = Field(default_factory=dict, max_length=MAX_ARGUMENTS)


class ScratchPart(_Part):
    """One entry of `[scratch]`."""

    dtype: Dtype
    shape: tuple[_Expression, ...] = Field(min_length=1)
    zero: StrictBool = False


class TunePart(_Part):
    """`[tune]`, its reserved key `when` apart from the tunables."""

    values: dict[str, tuple[StrictInt, ...]] = Field(default_factory=dict)
    when: tuple[StrictStr, ...] = ()


class HeaderPart(_Part):
    """The whole header, shaped as its TOML is."""

    task: StrictStr | dict[str, Any] | None = None
    include: tuple[StrictStr, ...] = ()
    options: tuple[StrictStr, ...] = ()
    scratch: dict[str, ScratchPart] = Field(default_factory=dict)
    launch: tuple[LaunchPart, ...] = Field(min_length=1, max_length=MAX_LAUNCHES)
    tune: TunePart = Field(default_factory=TunePart)


class Header(_Part):
    """A valid header in the store's nouns. `task` is a name, the inline `[task]` table, or None where there is none."""

    task: str | dict[str, Any] | None
    include: tuple[str, ...]
    options: tuple[str, ...]
    scratch: tuple[Scratch, ...]
    launches: tuple[Launch, ...]
    tune: Tune


_KEYS: dict[str, tuple[str, ...]] = {
    "": tuple(HeaderPart.model_fields),
    "launch": tuple(LaunchPart.model_fields),
    "scratch": tuple(ScratchPart.model_fields),
}
_PLACES = {"": "at the top, above the first [table]", "launch": "in [[launch]]", "scratch": "in an entry of [scratch]"}


def parse_header(block: HeaderBlock) -> Header:
    """The header that a block declares; every expression in it parses, names are not resolved yet (`check_names`).

    Raises InputError naming the place, the source line where it can be told, and the nearest right key.
    """
    table = dict(block.table)
    tune = table.get("tune")
    if isinstance(tune, dict):
        when = {"when": tune["when"]} if "when" in tune else {}
        table["tune"] = {"values": {key: value for key, value in tune.items() if key != "when"}, **when}
    try:
        part = HeaderPart.model_validate(table)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        # A misspelt required key is both unknown and missing: the unknown one says more.
        first = next((entry for entry in errors if entry["type"] == "extra_forbidden"), errors[0])
        raise _explain(list(first["loc"]), first["type"], first["msg"], first.get("input"), block) from None
    header = Header(
        task=part.task,
        include=part.include,
        options=part.options,
        scratch=tuple(Scratch(name=name, **entry.model_dump()) for name, entry in part.scratch.items()),
        launches=tuple(Launch(**launch.model_dump()) for launch in part.launch),
        tune=Tune(**part.tune.model_dump()),
    )
    header.tune.check()
    for _, where, text in expressions(header.launches, header.scratch):
        _parse(text, where)
    return header


def _parse(text: str, where: str) -> Expression:
    try:
        return Expression.parse(text)
    except InputError as error:
        raise InputError(f"{where}: {error.what}", value=error.value, next_step=error.next_step) from None


class Placed(NamedTuple):
    """An expression and where it stands: `where` for people, e.g. `grid x of launch scan`."""

    kind: Literal["template", "argument", "geometry", "scratch"]
    where: str
    text: str


def expressions(launches: Iterable[Launch], scratch: Iterable[Scratch]) -> list[Placed]:
    """Every expression of launches and scratch memory; type arguments of templates are none."""
    found: list[Placed] = []
    for launch in launches:
        of = f"of launch {launch.entry}"
        _, template = split_entry(launch.entry)
        for i, text in enumerate(template, 1):
            if not is_type(text):
                found.append(Placed("template", f"template argument {i} {of}", text))
        found += [Placed("argument", f"argument {i} {of}", text) for i, text in enumerate(launch.args, 1)]
        for what, axes in (("grid", launch.grid), ("block", launch.block)):
            found += [Placed("geometry", f"{what} {axis} {of}", text) for axis, text in zip("xyz", axes, strict=False)]
        found.append(Placed("geometry", f"smem {of}", launch.smem))
        found += [Placed("geometry", f"constexpr {name} {of}", text) for name, text in launch.constexpr.items()]
    for entry in scratch:
        found += [
            Placed("scratch", f"dimension {i} of scratch {entry.name}", text) for i, text in enumerate(entry.shape, 1)
        ]
    return found


def check_names(header: Header, task: Task) -> None:
    """Every name means one thing, and every expression uses known names only; see `check_launch_names`."""
    check_launch_names(task, header.launches, header.scratch, tuple(header.tune.values))


def check_launch_names(
    task: Task, launches: Iterable[Launch], scratch: Iterable[Scratch], tunables: Iterable[str]
) -> None:
    """Raises InputError for a name with two meanings or none, naming the nearest right one.

    Tensors and scratch memory may stand in `args` only, alone; a template argument may not use sizes, since one
    compiled configuration serves every case.
    """
    scratch, tunables = tuple(scratch), tuple(tunables)
    check_clashes(task, (entry.name for entry in scratch), tunables)
    memory = {tensor.name for tensor in task.tensors} | {entry.name for entry in scratch}
    configuration = {*tunables, *CONSTANTS}
    for kind, where, text in expressions(launches, scratch):
        if kind == "argument" and text.strip() in memory:
            continue
        names = _parse(text, where).names
        if names & memory:
            raise InputError(
                f"{where} computes with a tensor or scratch memory",
                value=text,
                next_step="Only args take them, alone; other expressions use sizes, tunables and constants.",
            )
        if kind == "template" and names & set(task.size_names):
            raise InputError(
                f"{where} uses a size of the task",
                value=text,
                next_step="Use tunables: one compiled configuration serves every case.",
            )
        check_known(names, {*configuration, *task.size_names}, where)


def unused_tunables(
    tunables: Iterable[str], launches: Iterable[Launch], scratch: Iterable[Scratch], code_names: set[str]
) -> tuple[str, ...]:
    """The tunables that neither an expression nor the code (its identifiers) uses; conditions do not count."""
    used = set(code_names)
    for _, _, text in expressions(launches, scratch):
        used |= Expression.parse(text).names
    return tuple(name for name in tunables if name not in used)


def _explain(loc: list[Any], kind: str, message: str, given: object, block: HeaderBlock) -> InputError:
    """One of pydantic's errors in the words of the header."""
    section = loc[0] if len(loc) > 1 and loc[0] in ("launch", "scratch") else ""
    key = str(loc[-1])
    place = _place(loc)
    if kind == "extra_forbidden":
        line = block.line_of(key)
        elsewhere = next((other for other, keys in _KEYS.items() if key in keys), None)
        hint = f"`{key}` belongs {_PLACES[elsewhere]}." if elsewhere is not None else suggestion(key, _KEYS[section])
        inside = f" in {_place(loc[:-1])}" if len(loc) > 1 else ""
        return InputError(f"unknown key{inside} of the kernel header{_on(line)}", value=key, next_step=hint)
    line = block.line_of(next(str(part) for part in reversed(loc) if isinstance(part, str)))
    if kind == "missing":
        hint = "Add [[launch]] with entry and args." if key == "launch" else f"Add `{key} = …` there."
        inside = f" of {_place(loc[:-1])}" if len(loc) > 1 else ""
        return InputError(f"the kernel header lacks a key{inside}", value=key, next_step=hint)
    shown = repr(given) if isinstance(given, str | int | float | bool) else type(given).__name__
    hint = f"{message}."
    if loc[0] == "task":
        place, line = "task", block.line_of("task")
        hint = 'Write task = "name" for a built-in task, or a [task] table.'
    elif loc == ["launch"]:
        hint = "Write each launch as a table that starts with [[launch]]."
    elif loc[0] == "tune" and loc[-1] == "when":
        hint = 'Write a list of conditions, e.g. when = ["BLOCK <= 512"].'
    elif loc[0] == "tune":
        hint = "Each tunable lists whole numbers, the default first, e.g. BLOCK = [256, 128]."
        if len(loc) > 2 and nearest(str(loc[2]), ["when"]):
            hint = "Did you mean when? Its value is a list of conditions."
    elif kind == "tuple_type":
        hint = f"Write a list: {key} = […]."
    elif kind in ("string_type",):
        hint = "Write text in quotes, or an integer where an expression stands."
    return InputError(f"{place} of the kernel header is not as it must be{_on(line)}", value=shown[:80], next_step=hint)


def _place(loc: list[Any]) -> str:
    """`launch 2, grid 1`: a location as people count, without the model's own inner names."""
    parts: list[str] = []
    for part in loc:
        if isinstance(part, int):
            parts[-1] += f" {part + 1}"
        elif part != "values" or parts != ["tune"]:
            parts.append(str(part))
    return ", ".join(parts) if parts else "the top"


def _on(line: int | None) -> str:
    return "" if line is None else f" (line {line})"
