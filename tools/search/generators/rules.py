"""Named rules that edit a source: each is deterministic and applies only where its pattern stands.

A rule may break a kernel: whether the result is right and faster is for forecasts and the bench to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ....store.models import Kernel, Language
from .loops import before_line, find_loops, is_first_on_line, line_above, line_number
from .sources import Text

Edit = tuple[str, Text]
"""What it does, in words, and the edited text."""
_BOTH: tuple[Language, ...] = ("c", "cuda")


@dataclass(frozen=True)
class Rule:
    """A rule by name, the languages it is for, and all the edits it can make of a text."""

    name: str
    languages: tuple[Language, ...]
    edits: Callable[[Text, Kernel], Iterator[Edit]]


def replaced(text: Text, pattern: str, by: str, idea: str, *, flags: int = 0) -> Iterator[Edit]:
    """One edit: every match of a pattern replaced at once; none where nothing matches."""
    code, count = re.subn(pattern, by, text.code, flags=flags)
    if count and code != text.code:
        yield idea, text.with_code(code)


def options_of(language: Language) -> tuple[tuple[str, ...], ...]:
    """Sets of options worth a try."""
    if language == "cuda":
        return (("--use_fast_math",), ("--maxrregcount=32",), ("--maxrregcount=64",), ("--maxrregcount=128",))
    return (("-ffast-math",), ("-funroll-loops",), ("-O2",), ("-ffast-math", "-funroll-loops"))


def _options(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Add an option, or take one away."""
    for added in options_of(kernel.language):
        families = {
            option.partition("=")[0][:3] if option.startswith("-O") else option.partition("=")[0] for option in added
        }
        rivals = [
            option
            for option in text.options
            if option not in added
            and (option.partition("=")[0] in families or (option[:2] == "-O" and "-O" in families))
        ]
        if not set(added) <= set(text.options):
            yield f"compile with {' '.join(added)}", text.with_options(added, rivals)
    for option in text.options:
        if not option.startswith(("-std", "-fopenmp", "-march")):
            yield f"compile without {option}", text.with_options(remove=[option])


def _restrict(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Promise that pointer parameters do not overlap."""
    word = (
        "restrict" if kernel.language == "c" and not any("++" in option for option in text.options) else "__restrict__"
    )
    entries = {re.split(r"[<(]", launch.entry)[0].strip() for launch in kernel.launches}
    for entry in sorted(entries):
        match = re.search(rf"\b{re.escape(entry)}\s*\(([^)]*)\)\s*\{{", text.code)
        if match is None or "restrict" in match[1]:
            continue
        parameters = re.sub(r"\*\s*(?=\w)", f"* {word} ", match[1])
        if parameters != match[1]:
            code = text.code[: match.start(1)] + parameters + text.code[match.end(1) :]
            yield f"{word} on the pointers of {entry}", text.with_code(code)


def _unroll(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """A pragma before an innermost loop."""
    cuda = kernel.language == "cuda"
    lines = ["#pragma unroll"] if cuda else ["#pragma GCC ivdep"]
    lines += [f"#pragma unroll {n}" if cuda else f"#pragma GCC unroll {n}" for n in (2, 4, 8, 16)]
    for loop in find_loops(text.code):
        if not loop.innermost or not is_first_on_line(text.code, loop.start):
            continue
        if line_above(text.code, loop.start).startswith("#pragma"):
            continue
        place = line_number(text.code, loop.start)
        for line in lines:
            yield f"{line} at the loop on code line {place}", text.with_code(before_line(text.code, loop.start, line))


def _other_unroll(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Another factor in an unroll pragma that is there."""
    for match in re.finditer(r"#pragma (?:GCC )?unroll (\d+)", text.code):
        for factor in ("1", "2", "4", "8", "16"):
            if factor != match[1]:
                code = text.code[: match.start(1)] + factor + text.code[match.end(1) :]
                yield f"unroll {factor} on code line {line_number(text.code, match.start())}", text.with_code(code)


def _reciprocal(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """In loops, multiply by a reciprocal taken before them."""
    for loop in find_loops(text.code):
        if not loop.innermost or not is_first_on_line(text.code, loop.start):
            continue
        for match in re.finditer(r"/\s*(?P<by>[A-Za-z_]\w*)\s*(?=[;)])", text.code[loop.body : loop.end]):
            by = match["by"]
            if re.search(rf"\b{by}\s*(?:[+\-*/]?=[^=]|\+\+|--)", text.code[loop.start : loop.end]):
                continue
            if not re.search(rf"\b(?:float|double)\s+(?:\w+\s*=[^;]*,\s*)*{by}\b", text.code[: loop.start]):
                continue  # of whole numbers the quotient is another one
            name = f"one_over_{by}"
            start, end = loop.body + match.start(), loop.body + match.end()
            code = text.code[:start] + f"* {name}" + text.code[end:]
            line = f"const float {name} = 1.0f / {by};"
            yield f"multiply by the reciprocal of {by}", text.with_code(before_line(code, loop.start, line))


def _float_math(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Single precision where double slipped in."""
    functions = "exp|log|sqrt|tanh|pow|fabs|fmax|fmin|erf"
    yield from replaced(text, rf"\b({functions})\(", r"\1f(", "single-precision math functions")
    yield from replaced(text, r"(?<![\w.])(\d+\.\d*(?:[eE][+-]?\d+)?)(?![\w.])", r"\1f", "float literals")
    yield from replaced(text, r"\bdouble\b", "float", "float instead of double")


def _index_type(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """32-bit index arithmetic."""
    yield from replaced(text, r"\(\s*(?:long long|size_t|int64_t)\s*\)", "", "32-bit index arithmetic")
    yield from replaced(text, r"\bconst long long\b", "const int", "32-bit indices")


COMMON: tuple[Rule, ...] = (
    Rule("options", _BOTH, _options),
    Rule("restrict", _BOTH, _restrict),
    Rule("unroll", _BOTH, _unroll),
    Rule("unroll-factor", _BOTH, _other_unroll),
    Rule("reciprocal", _BOTH, _reciprocal),
    Rule("float-math", _BOTH, _float_math),
    Rule("index-type", _BOTH, _index_type),
)
