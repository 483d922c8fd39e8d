"""Rules for C on a CPU: SIMD and threads through OpenMP, tiles, exchanged loops, branches out of loops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....store.models import Kernel
from .loops import Loop, before_line, find_loops, is_first_on_line, line_above, line_number
from .rules import Edit, Rule
from .sources import Text


def _simd(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """`omp simd` on an innermost loop, with the reductions that its body shows."""
    for loop in find_loops(text.code):
        if not loop.innermost or not loop.var or not _free(text.code, loop):
            continue
        clause = _reductions(text.code, loop)
        line = f"#pragma omp simd{clause}"
        code = before_line(text.code, loop.start, line)
        place = line_number(text.code, loop.start)
        yield f"{line} on code line {place}", text.with_code(code).with_options(["-fopenmp"])


def _threads(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """`omp parallel for` on an outermost loop."""
    loops = find_loops(text.code)
    for loop in loops:
        outer = not any(other.start < loop.start and loop.end <= other.end for other in loops)
        if not outer or not loop.var or not _free(text.code, loop) or "#pragma omp parallel" in text.code:
            continue
        for schedule in ("static", "dynamic"):
            line = f"#pragma omp parallel for schedule({schedule}){_reductions(text.code, loop)}"
            code = before_line(text.code, loop.start, line)
            yield f"threads over {loop.var}, {schedule}", text.with_code(code).with_options(["-fopenmp"])


def _nests(text: str) -> Iterator[tuple[Loop, Loop]]:
    """Counted loops whose body is nothing but one other counted loop."""
    loops = find_loops(text)
    for outer in loops:
        inner = next((loop for loop in loops if outer.body <= loop.start < outer.end), None)
        if inner is None or not outer.var or not inner.var or outer.step != "1" or inner.step != "1":
            continue
        around = text[outer.body : inner.start].strip(" \n{") + text[inner.end : outer.end].strip(" \n}")
        if not around and outer.var not in re.findall(r"\w+", inner.first + " " + inner.last):
            yield outer, inner


def _head(loop: Loop) -> str:
    return f"for ({loop.type} {loop.var} = {loop.first}; {loop.var} < {loop.last}; {loop.var}++)"


def _exchange(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Exchange two loops that are nested without anything between."""
    for outer, inner in _nests(text.code):
        body = text.code[inner.body : inner.end]
        code = f"{text.code[: outer.start]}{_head(inner)} {{\n{_head(outer)} {body}\n}}{text.code[outer.end :]}"
        yield f"loop over {inner.var} outside, {outer.var} inside", text.with_code(code)


def _tile(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Cut two nested loops into tiles, with the inner loops either way round."""
    for outer, inner in _nests(text.code):
        body = text.code[inner.body : inner.end]
        for size in (8, 16, 32, 64, 128):
            for first, second in ((outer, inner), (inner, outer)):
                heads = [
                    f"for ({loop.type} {loop.var}_0 = {loop.first}; {loop.var}_0 < {loop.last}; {loop.var}_0 += {size})"
                    for loop in (outer, inner)
                ]
                heads += [
                    f"for ({loop.type} {loop.var} = {loop.var}_0; "
                    f"{loop.var} < {loop.var}_0 + {size} && {loop.var} < {loop.last}; {loop.var}++)"
                    for loop in (first, second)
                ]
                nest = " {\n".join(heads) + f" {body}\n" + "}" * 3
                code = text.code[: outer.start] + nest + text.code[outer.end :]
                idea = f"tiles of {size} x {size}, {second.var} innermost"
                yield idea, text.with_code(code)


def _branch_free(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """A conditional assignment as a selection, which vectorises."""
    pattern = r"if\s*\((?P<a>[^;{}()]+?(?:\[[^;{}()]*\])?)\s*>\s*(?P<b>\w+)\)\s*(?P=b)\s*=\s*(?P=a);"
    for match in re.finditer(pattern, text.code):
        new = f"{match['b']} = {match['a']} > {match['b']} ? {match['a']} : {match['b']};"
        code = text.code[: match.start()] + new + text.code[match.end() :]
        yield f"selection instead of a branch for {match['b']}", text.with_code(code)


def _split_sum(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Several running sums in one innermost loop, so that additions do not wait for each other."""
    for loop in find_loops(text.code):
        if not (loop.innermost and loop.var and loop.step == "1" and _free(text.code, loop)):
            continue
        body = loop.inside(text.code).strip()
        match = re.fullmatch(r"(?P<to>[A-Za-z_]\w*)\s*\+=\s*(?P<what>[^;]+);", body)
        if match is None:
            continue
        to, var = match["to"], loop.var
        for ways in (4, 8):
            parts = ", ".join(f"{to}_{n} = 0" for n in range(ways))
            here = re.compile(rf"\b{var}\b")
            adds = " ".join(f"{to}_{n} += {here.sub(f'({var} + {n})', match['what'])};" for n in range(ways))
            new = (
                f"{loop.type} {var} = {loop.first};\nfloat {parts};\n"
                f"for (; {var} + {ways - 1} < {loop.last}; {var} += {ways}) {{ {adds} }}\n"
                f"for (; {var} < {loop.last}; {var}++) {{ {body} }}\n"
                f"{to} += {' + '.join(f'{to}_{n}' for n in range(ways))};"
            )
            code = f"{text.code[: loop.start]}{{\n{new}\n}}{text.code[loop.end :]}"
            yield f"{ways} partial sums of {to}", text.with_code(code)


def _thread_count(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Another schedule of a threaded loop."""
    for match in re.finditer(r"schedule\((\w+)(?:, ?\d+)?\)", text.code):
        for other in ("static", "dynamic", "dynamic, 4", "guided"):
            new = f"schedule({other})"
            if new != match[0]:
                yield new, text.with_code(text.code[: match.start()] + new + text.code[match.end() :])


def _free(code: str, loop: Loop) -> bool:
    """Whether a pragma can be put before the loop."""
    return is_first_on_line(code, loop.start) and not line_above(code, loop.start).startswith("#pragma")


def _reductions(code: str, loop: Loop) -> str:
    """Clauses for what the loop sums up or takes the maximum of, and declares outside."""
    body = code[loop.body : loop.end]
    declared = set(re.findall(r"\b(?:float|double|int|long|size_t)\s+(\w+)\s*=", body))
    sums = set(re.findall(r"(?<![\w\]>.])(\w+)\s*\+=", body)) - declared - {loop.var}
    sums -= set(re.findall(r"(\w+)\s*\+=\s*\d+\s*\)", body))
    tops = set(re.findall(r"if\s*\([^;{}]+>\s*(\w+)\)\s*\1\s*=", body))
    tops |= set(re.findall(r"(?<![\w\]>.])(\w+)\s*=\s*[^;?]+>\s*\1\s*\?", body))
    tops -= declared
    clauses = [f" reduction(+ : {', '.join(sorted(sums))})"] if sums else []
    clauses += [f" reduction(max : {', '.join(sorted(tops))})"] if tops else []
    return "".join(clauses)


C_RULES: tuple[Rule, ...] = (
    Rule("simd", ("c",), _simd),
    Rule("threads", ("c",), _threads),
    Rule("schedule", ("c",), _thread_count),
    Rule("exchange", ("c",), _exchange),
    Rule("tile", ("c",), _tile),
    Rule("branch-free", ("c",), _branch_free),
    Rule("split-sum", ("c",), _split_sum),
)
