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
from .contract import Query, Sibling, Side
from .structure import plain, similarity, traits

Form = Literal["table", "changes", "source"]
"""How siblings are shown: a table; with each one's changed lines against the baseline; or with their whole sources."""
_MOST_CHANGED_LINES = 40
_MOST_SOURCE_CHARACTERS = 24_000
_IDEA_CHARACTERS = 60
_LIST_CHARACTERS = 120
_MOST_TRAITS = 5
_UNPAIRED = "unpaired"
TRAIT_WORDS: dict[str, str] = {
    "loops": "loops", "branches": "ifs", "unroll": "unroll hints", "vector4": "wide vectors",
    "vector2": "narrow vectors", "shared": "shared arrays", "barriers": "barriers", "shuffles": "warp shuffles",
    "atomics": "atomics", "tensor_core": "tensor-core products", "async_copy": "asynchronous copies",
    "cache_hints": "cache hints or prefetches", "exp_log": "exp/log calls", "divide_sqrt": "divisions or roots",
    "restrict": "restrict", "openmp": "OpenMP pragmas",
}  # fmt: skip
"""The constructs that are counted (`structure.traits`), in words that need no explanation but one."""
_VECTORS = "wide vectors: float4, __m256 and the like, narrow: float2, half2, __m128"


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
    """Facts of all sides on one line, sides with the same facts together; nothing where nothing is known."""
    sides = [("base", query.baseline)] + [(f"c{number}", side) for number, side in enumerate(query.candidates, 1)]
    same: dict[str, list[str]] = {}
    for label, side in sides:
        if side.facts is not None:
            same.setdefault(_facts(side.facts), []).append(label)
    if list(same) == ["compiles"] and len(same["compiles"]) == len(sides):
        return "facts: all compile"
    said = [f"{', '.join(labels)} {text}" for text, labels in same.items()]
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
    elif query.no_floor:
        line += f"; {query.no_floor}"
    return line


def _table(query: Query) -> str:
    tunables = any(kernel.tunables for kernel in _kernels(query))
    rows: list[tuple[str, ...]] = [("#", "S", "95%", "us", "floor", "like", "tunables", "difference")]
    rows.append(_base_row(query))
    rows.extend(_candidate_row(number, side, query) for number, side in enumerate(query.candidates, 1))
    rows.extend(_sibling_row(number, sibling, query) for number, sibling in enumerate(_ranked(query), 1))
    shown = [column for column, name in enumerate(rows[0]) if _shown(name, query, tunables)]
    widths = {column: max(len(row[column]) for row in rows) for column in shown}
    lines = ["  ".join(row[column].ljust(widths[column]) for column in shown).rstrip() for row in rows]
    none = [] if _measured(query) else ["no siblings measured yet"]
    return "\n".join([_head(query, "\n".join(lines)), *lines, *none])


def _kernels(query: Query) -> list[Kernel]:
    sides = [query.baseline.kernel, *(side.kernel for side in query.candidates)]
    return [*sides, *(sibling.kernel for sibling in query.siblings)]


def _measured(query: Query) -> list[Sibling]:
    """All that the table tells the measured S of."""
    return [*query.siblings, *(side.measured for side in query.candidates if side.measured is not None)]


def _shown(column: str, query: Query, tunables: bool) -> bool:
    """Columns in which nothing would stand are left out."""
    if column == "95%":
        return bool(_measured(query))
    return {"floor": bool(query.floor_us), "tunables": tunables}.get(column, True)


def _head(query: Query, table: str) -> str:
    """What the columns mean, as far as something stands in them."""
    said = ["S over base"]
    if _measured(query):
        said = ["S over base, from measured pairs, with its 95% interval", "us: base's time / S"]
    if any(one.unpaired for one in _measured(query)):
        said.append(f"{_UNPAIRED}: from times of different runs, which drift")
    said += ["like: the side it resembles most", "difference: from that side, counts of constructs as old>new"]
    if " vectors " in table:
        said.append(_VECTORS)
    return f"measured here ({'; '.join(said)}):"


def _ranked(query: Query) -> list[Sibling]:
    """Fastest first, those that are not `ok` last."""
    return sorted(query.siblings, key=lambda sibling: (sibling.log2_speedup is None, -(sibling.log2_speedup or 0.0)))


def _base_row(query: Query) -> tuple[str, ...]:
    time = "-" if query.baseline_us is None else f"{query.baseline_us:.4g}"
    known = query.baseline_us is not None and query.floor_us is not None
    floor = f"{100 * (query.floor_us or 0) / (query.baseline_us or 1):.0f}%" if known else "-"
    return "base", "1", "-", time, floor, "-", _tunables(query.baseline.kernel) or "-", "-"


def _candidate_row(number: int, side: Side, query: Query) -> tuple[str, ...]:
    base, kernel = query.baseline.kernel, side.kernel
    like = f"base {100 * similarity(kernel, base):.0f}%"
    return f"c{number}", *_numbers(side.measured), like, _tunables(kernel) or "-", difference(base, kernel)


def _sibling_row(number: int, sibling: Sibling, query: Query) -> tuple[str, ...]:
    name, nearest = _nearest(sibling.kernel, query)
    like = f"{name} {100 * similarity(sibling.kernel, nearest):.0f}%"
    what = difference(nearest, sibling.kernel)
    if sibling.idea:
        what = f"{what} “{_one_line(sibling.idea, _IDEA_CHARACTERS)}”"
    return f"s{number}", *_numbers(sibling), like, _tunables(sibling.kernel) or "-", what


def _numbers(measured: Sibling | None) -> tuple[str, str, str, str]:
    """S, its interval, time and share of the floor of a row."""
    if measured is None:
        return "?", "?", "?", "?"
    speedup = measured.verdict if measured.log2_speedup is None else f"{2.0**measured.log2_speedup:.3f}"
    time = "-" if measured.time_us is None else f"{measured.time_us:.4g}"
    floor = "-" if measured.percent_of_floor is None else f"{measured.percent_of_floor:.0f}%"
    return speedup, _interval(measured), time, floor


def _interval(sibling: Sibling) -> str:
    if sibling.log2_speedup is None:
        return "-"
    if sibling.unpaired:
        return _UNPAIRED
    low, high = (None if end is None else f"{2.0**end:.3g}" for end in (sibling.log2_low, sibling.log2_high))
    return "-" if low is None and high is None else f"{low or ''}..{high or ''}"


def _nearest(kernel: Kernel, query: Query) -> tuple[str, Kernel]:
    """The side of the query that a kernel resembles most; a candidate where it is a draw."""
    sides = [(f"c{number}", side.kernel) for number, side in enumerate(query.candidates, 1)]
    return max([*sides, ("base", query.baseline.kernel)], key=lambda side: similarity(kernel, side[1]))


def difference(base: Kernel, kernel: Kernel) -> str:
    """What a kernel has that the other has not: options, includes, launches; then how the counts of constructs differ,
    the largest changes first. What differs in tunables alone stands in their column."""
    found = [*_lists_differ(base, kernel)]
    if plain(base) != plain(kernel):
        old, new = traits(base), traits(kernel)
        changed = [(name, old[name], new[name]) for name in new if old[name] != new[name]]
        changed.sort(key=lambda item: (-abs(item[2] - item[1]) / (1 + item[1]), item[0]))
        counts = ", ".join(f"{TRAIT_WORDS[name]} {a}>{b}" for name, a, b in changed[:_MOST_TRAITS])
        found.append(counts or "other text")
    elif not found:
        return "same text"
    return "; ".join(found)


def _lists_differ(base: Kernel, kernel: Kernel) -> Iterator[str]:
    """Options, includes and launches that only one of the two has."""
    if base.language != kernel.language:
        yield f"{kernel.language} instead of {base.language}"
    for what, old, new in (
        ("", base.options, kernel.options),
        ("include ", tuple(base.includes), tuple(kernel.includes)),
    ):
        added, gone = [one for one in new if one not in old], [one for one in old if one not in new]
        told = [f"with {what}{' '.join(added)}"] * bool(added) + [f"without {what}{' '.join(gone)}"] * bool(gone)
        if told:
            yield _one_line(", ".join(told), _LIST_CHARACTERS)
        elif old != new:
            yield "the same options or includes in another order"
    shapes = [[(one.grid, one.block, one.smem) for one in each.launches] for each in (base, kernel)]
    if kernel.language == "cuda" and shapes[0] != shapes[1]:
        launches = [f"grid ({', '.join(grid)}) block ({', '.join(block)})" for grid, block, _ in shapes[1]]
        yield _one_line(f"launch {' + '.join(launches)}", _LIST_CHARACTERS)


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
