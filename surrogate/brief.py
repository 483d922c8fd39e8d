"""The brief: what is known about a question, as short as it can be said, since its reader pays for every token.

It leads with the measured siblings, which are worth more than all the rest (see `siblings`); facts and device take a
line each. Texts that others wrote stand behind a fence that they cannot close, and are data.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal

from ..store.models import EntryFacts, Facts, Kernel, Task, Tensor
from .contract import Query, Sibling
from .structure import plain, similarity, traits

Form = Literal["table", "changes", "source"]
"""How siblings are shown: a table; with each one's changed lines against the baseline; or with their whole sources."""
_MOST_CHANGED_LINES = 40
_MOST_SOURCE_CHARACTERS = 24_000
_IDEA_CHARACTERS = 60
_MOST_TRAITS = 5


def brief(query: Query, *, sources: bool = True, form: Form = "table") -> str:
    """The brief of a query as text. `sources`: with the kernels' texts; an agent that wrote them needs none."""
    parts = [_task_lines(query), _baseline_line(query)]
    parts.append(_table(query))
    if form != "table":
        parts.extend(_sibling_texts(query, form))
    facts = facts_line(query)
    if facts:
        parts.append(facts)
    if query.device_line:
        parts.append(f"device: {_one_line(query.device_line, 400)}")
    if query.record:
        record = "\n".join(f"- {_one_line(line, 200)}" for line in query.record)
        parts.append(f"what you got wrong here before:\n{record}")
    if sources:
        if query.task.reference_source:
            parts.append(fenced("the task's reference", query.task.reference_source))
        parts.append(kernel_text("baseline base", query.baseline.kernel))
        for number, side in enumerate(query.candidates, 1):
            parts.append(kernel_text(_label(number, query), side.kernel))
    return "\n".join(parts)


def kernel_text(label: str, kernel: Kernel) -> str:
    """A kernel as a forecaster reads it: source without comments, tunable values and launches, fenced."""
    lines = [plain(kernel)]
    if kernel.tunables:
        lines.append("tunables: " + _tunables(kernel))
    if kernel.options:
        lines.append("options: " + " ".join(kernel.options))
    if kernel.language != "c":
        for launch in kernel.launches:
            smem = "" if launch.smem == "0" else f", {launch.smem} bytes dynamic shared"
            lines.append(
                f"launch: {launch.entry} grid ({', '.join(launch.grid)}) block ({', '.join(launch.block)}){smem}"
            )
    return fenced(f"{label} ({kernel.language})", "\n".join(lines))


def fenced(label: str, text: str) -> str:
    """A text between two lines that hold a hash of the text itself, so that it cannot write the closing one."""
    if len(text) > _MOST_SOURCE_CHARACTERS:
        half = _MOST_SOURCE_CHARACTERS // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
    salt = 0
    while (mark := hashlib.sha256(f"{salt}{text}".encode()).hexdigest()[:8]) in text:
        salt += 1
    return f"<<<{mark} {label}\n{text}\n{mark}>>>"


def facts_line(query: Query) -> str:
    """Facts of all sides on one line, or nothing where nothing is known."""
    sides = [("base", query.baseline)] + [(_label(n, query), side) for n, side in enumerate(query.candidates, 1)]
    said = [
        f"{label.removeprefix('candidate ')} {_facts(side.facts)}" for label, side in sides if side.facts is not None
    ]
    return f"facts: {'; '.join(said)}" if said else ""


def _task_lines(query: Query) -> str:
    task = query.task
    cases = "; ".join(case.name for case in task.timed_on(query.device_kind))
    reference = f"; {_one_line(task.reference, 200)}" if task.reference.startswith("einsum:") else ""
    precision = "exact result"
    if task.precision is not None:
        precision = f"products {task.precision.multiply}, sums {task.precision.accumulate} or better"
    return f"task {task.name}: {signature(task)}{reference} ({precision})\ntimed cases on {query.device}: {cases}"


def signature(task: Task) -> str:
    """The task's tensors, e.g. `x[R,C] f32 -> y[R,C] f32`."""

    def texts(roles: tuple[str, ...]) -> str:
        return ", ".join(_tensor(tensor) for tensor in task.tensors if tensor.role in roles)

    return f"{texts(('in', 'inout'))} -> {texts(('out', 'inout'))}"


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.name}[{','.join(tensor.shape)}] {tensor.dtype}"


def _baseline_line(query: Query) -> str:
    if query.baseline_us is None:
        return "baseline: not measured yet"
    line = f"baseline: {query.baseline_us:.4g} us, geometric mean over the timed cases"
    if query.floor_us:
        line += f"; floor {query.floor_us:.4g} us, so at most {query.baseline_us / query.floor_us:.3g}x is left"
    return line


def _table(query: Query) -> str:
    rows: list[tuple[str, ...]] = [("#", "S", "us", "floor", "like", "tunables", "text")]
    rows.append(_base_row(query))
    rows.extend(_candidate_row(number, side.kernel, query) for number, side in enumerate(query.candidates, 1))
    rows.extend(_sibling_row(number, sibling, query) for number, sibling in enumerate(_ranked(query), 1))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    head = "measured here (S over the same baseline; like: the side it resembles most; text: what differs from it):"
    none = [] if query.siblings else ["no siblings measured yet"]
    return "\n".join([head, *lines, *none])


def _ranked(query: Query) -> list[Sibling]:
    """Fastest first, those that are not `ok` last."""
    return sorted(query.siblings, key=lambda sibling: (sibling.log2_speedup is None, -(sibling.log2_speedup or 0.0)))


def _base_row(query: Query) -> tuple[str, ...]:
    time = "-" if query.baseline_us is None else f"{query.baseline_us:.4g}"
    known = query.baseline_us is not None and query.floor_us is not None
    floor = f"{100 * (query.floor_us or 0) / (query.baseline_us or 1):.0f}%" if known else "-"
    return "base", "1", time, floor, "-", _tunables(query.baseline.kernel) or "-", "-"


def _candidate_row(number: int, kernel: Kernel, query: Query) -> tuple[str, ...]:
    base = query.baseline.kernel
    like = f"base {100 * similarity(kernel, base):.0f}%"
    return f"c{number}", "?", "?", "?", like, _tunables(kernel) or "-", _difference(base, kernel)


def _sibling_row(number: int, sibling: Sibling, query: Query) -> tuple[str, ...]:
    speedup = sibling.verdict if sibling.log2_speedup is None else f"{2.0**sibling.log2_speedup:.3f}"
    time = "-" if sibling.time_us is None else f"{sibling.time_us:.4g}"
    floor = "-" if sibling.percent_of_floor is None else f"{sibling.percent_of_floor:.0f}%"
    name, nearest = _nearest(sibling.kernel, query)
    like = f"{name} {100 * similarity(sibling.kernel, nearest):.0f}%"
    what = _difference(nearest, sibling.kernel)
    if sibling.idea:
        what = f"{what} “{_one_line(sibling.idea, _IDEA_CHARACTERS)}”"
    return f"s{number}", speedup, time, floor, like, _tunables(sibling.kernel) or "-", what


def _nearest(kernel: Kernel, query: Query) -> tuple[str, Kernel]:
    """The side of the query that a kernel resembles most; a candidate where it is a draw."""
    sides = [(f"c{number}", side.kernel) for number, side in enumerate(query.candidates, 1)]
    return max([*sides, ("base", query.baseline.kernel)], key=lambda side: similarity(kernel, side[1]))


def _difference(base: Kernel, kernel: Kernel) -> str:
    """How the counts of constructs differ, the largest changes first; `same text` for equal sources."""
    if plain(base) == plain(kernel):
        return "same text"
    old, new = traits(base), traits(kernel)
    changed = [(name, old[name], new[name]) for name in new if old[name] != new[name]]
    changed.sort(key=lambda item: (-abs(item[2] - item[1]) / (1 + item[1]), item[0]))
    return " ".join(f"{name} {a}>{b}" for name, a, b in changed[:_MOST_TRAITS]) or "other text"


def _sibling_texts(query: Query, form: Form) -> Iterator[str]:
    """Each sibling's source, or its lines that differ from the side it resembles most; nothing where none do."""
    for number, sibling in enumerate(_ranked(query), 1):
        if form == "source":
            yield kernel_text(f"s{number}", sibling.kernel)
            continue
        name, nearest = _nearest(sibling.kernel, query)
        lines = changed_lines(plain(nearest), plain(sibling.kernel))
        if lines:
            cut = lines[:_MOST_CHANGED_LINES]
            more = [f"… {len(lines) - len(cut)} more changed lines"] if len(lines) > len(cut) else []
            yield fenced(f"s{number}, lines that differ from {name}", "\n".join([*cut, *more]))


def changed_lines(old: str, new: str) -> list[str]:
    """The lines that differ, `-` for the old and `+` for the new text, without context."""
    diff = difflib.unified_diff(old.split("\n"), new.split("\n"), n=0, lineterm="")
    return [line for line in list(diff)[2:] if not line.startswith("@@")]


def _label(number: int, query: Query) -> str:
    return "candidate c1" if len(query.candidates) == 1 else f"candidate c{number}"


def _tunables(kernel: Kernel) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(kernel.tunables.items()))


def _facts(facts: Facts) -> str:
    if not facts.ok:
        return f"does not compile ({_one_line(facts.error or '', 120)})"
    return " + ".join(_entry(entry) for entry in facts.entries) or "compiles"


def _entry(entry: EntryFacts) -> str:
    said: Sequence[tuple[str, object]] = (
        ("regs", entry.registers),
        ("spill B", entry.spill_bytes),
        ("shared B", entry.shared_bytes),
        ("occupancy", None if entry.occupancy is None else f"{entry.occupancy:.2f}"),
    )
    return " ".join(f"{value} {name}" for name, value in said if value is not None) or "compiles"


def _one_line(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
