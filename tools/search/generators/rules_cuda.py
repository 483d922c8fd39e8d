"""Rules for CUDA: block sizes, launch bounds, read-only and streaming access, warp shuffles, padding, float4."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....store.models import Kernel
from .loops import find_loops, is_first_on_line, line_number
from .rules import Edit, Rule, replaced
from .sources import Text

_BLOCK = re.compile(r"^(?P<head>[ \t]*block[ \t]*=[ \t]*\[)(?P<dims>[^\]]*)\]", re.MULTILINE)
_CONST_POINTER = re.compile(r"const\s+(?:float|int|double|float4|__nv_bfloat16)\s*\*\s*(?:__restrict__\s*)?(\w+)")
_POINTER = re.compile(r"(?<!const )\b(?:float|int|double)\s*\*\s*(?:__restrict__\s*)?(\w+)\s*(?=[,)])")
_MOST_THREADS = 1024
_TREE = re.compile(
    r"for\s*\(int (?P<s>\w+) = (?P<half>\d+); (?P=s) > 0; (?P=s) (?:/= 2|>>= 1)\)\s*\{\s*"
    r"if \((?P<t>\w+) < (?P=s)\) (?P<body>[^;]+;)\s*__syncthreads\(\);\s*\}"
)


def _numbers(dims: str) -> list[int]:
    return [int(part) for part in re.findall(r'(?<![\w"])\d+(?![\w"])', dims)]


def _block(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Another block size: the number in the header's block, and the same number and its half in code and header."""
    match = _BLOCK.search(text.header)
    if match is None:
        return
    for old in sorted(set(_numbers(match["dims"]))):
        for new in (8, 16, 32, 64, 128, 256, 512, 1024):
            if old < 2 or new == old or not old / 4 <= new <= old * 4:
                continue
            threads = 1
            for number in _numbers(match["dims"]):
                threads *= new if number == old else number
            if threads > _MOST_THREADS:
                continue
            pairs = {old: new, old // 2: new // 2} if old >= 64 else {old: new}

            def swap(number: re.Match[str], pairs: dict[int, int] = pairs) -> str:
                return str(pairs.get(int(number[0]), int(number[0])))

            code = re.sub(r"(?<![\w.])\d+(?![\w.])", swap, text.code)
            body, _, rest = text.header.partition("[[launch]]")
            header = body + "[[launch]]" + re.sub(r"(?<![\w.])\d+(?![\w.])", swap, rest)
            yield f"block of {new} instead of {old}", Text(header, code, text.options)


def _launch_bounds(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Tell the compiler the block size, and how many blocks should fit on a multiprocessor."""
    match = _BLOCK.search(text.header)
    if match is None or "__launch_bounds__" in text.code:
        return
    threads = 1
    for number in _numbers(match["dims"]):
        threads *= number
    if threads > 1 and re.fullmatch(r"[\d,\s]+", match["dims"]):
        for blocks in ("", ", 2", ", 4", ", 8"):
            bounds = f"__launch_bounds__({threads}{blocks})"
            yield from replaced(text, r"__global__\s+void", f"__global__ void {bounds}", bounds)


def _loads(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Reads of one input through another path."""
    for name in sorted(set(_CONST_POINTER.findall(text.code))):
        pattern = rf"(?<![\w&*])(?<!\* ){name}\[((?:[^\[\]]|\[[^\[\]]*\])+)\]"
        for how in ("__ldg", "__ldcs", "__ldcg"):
            yield from replaced(text, pattern, rf"{how}(&{name}[\1])", f"read {name} with {how}")
    yield from replaced(text, r"__ld(?:g|cs|cg)\(&(\w+)\[((?:[^\[\]]|\[[^\[\]]*\])+)\]\)", r"\1[\2]", "plain reads")


def _stores(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Writes of one output past the caches."""
    for name in sorted(set(_POINTER.findall(text.code))):
        pattern = rf"(?<![\w&]){name}\[((?:[^\[\]]|\[[^\[\]]*\])+)\] = ([^;=]+);"
        for how in ("__stcs", "__stcg", "__stwt"):
            yield from replaced(text, pattern, rf"{how}(&{name}[\1], \2);", f"write {name} with {how}")


def _fast_functions(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Approximate functions of the hardware."""
    yield from replaced(text, r"(?<!_)\bexpf\(", "__expf(", "__expf")
    yield from replaced(text, r"(?<!_)\blogf\(", "__logf(", "__logf")
    yield from replaced(text, r"1\.0f / sqrtf\(", "rsqrtf(", "rsqrtf")
    yield from replaced(
        text,
        r"\btanhf\(([^()]*(?:\([^()]*\))?[^()]*)\)",
        r"(1.0f - 2.0f / (__expf(2.0f * (\1)) + 1.0f))",
        "tanh by __expf",
    )


def _shuffles(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """The last steps of trees in shared memory by warp shuffles, without barriers."""

    def last_warp(match: re.Match[str]) -> str:
        s, t, body = match["s"], match["t"], match["body"]
        array = re.match(r"(\w+)\[", body)
        if array is None or int(match["half"]) < 32:
            return match[0]
        name = array[1]
        own, other = f"{name}[{t}]", f"{name}[{t} + {s}]"
        step = body.replace(other, "__shfl_down_sync(0xffffffffu, kf_v, kf_o)").replace(own, "kf_v")
        return (
            f"for (int {s} = {match['half']}; {s} >= 32; {s} /= 2) {{\n"
            f"    if ({t} < {s}) {body}\n    __syncthreads();\n  }}\n"
            f"  if ({t} < 32) {{\n    float kf_v = {own};\n    for (int kf_o = 16; kf_o > 0; kf_o /= 2) {step}\n"
            f"    if ({t} == 0) {own} = kf_v;\n  }}\n  __syncthreads();"
        )

    code = _TREE.sub(last_warp, text.code)
    if code != text.code:
        yield "warp shuffles for the last steps of shared-memory trees", text.with_code(code)


def _padding(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """One more column in a two-dimensional shared array, against bank conflicts."""
    yield from replaced(
        text,
        r"(__shared__\s+\w+\s+\w+\s*\[[^\]]+\]\s*\[)(\w+)\]",
        r"\g<1>\2 + 1]",
        "padded rows of shared memory",
    )


def _vector(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Four elements at a time in a loop over a row by all threads of a block, where the row's length is divisible."""
    inputs = set(_CONST_POINTER.findall(text.code))
    for loop in find_loops(text.code):
        if not (loop.innermost and loop.var and is_first_on_line(text.code, loop.start)) or loop.step == "1":
            continue
        var, body = loop.var, loop.inside(text.code).strip()
        reads = {m[0]: m for m in re.finditer(rf"\b(\w+)\[([^\[\]]*?)\b{var}\]", body) if m[1] in inputs}
        if not reads or len(body) > 400 or "__syncthreads" in body or not re.fullmatch(r"\w+", loop.last):
            continue
        loads, lanes = "", ["" for _ in range(4)]
        for number, read in enumerate(sorted(reads)):
            loads += f" const float4 kf_q{number} = *(const float4*)&{read};"
        for lane, part in enumerate("xyzw"):
            copy = body
            for number, read in enumerate(sorted(reads)):
                copy = copy.replace(read, f"kf_q{number}.{part}")
            lanes[lane] = re.sub(rf"\b{var}\b", f"({var} + {lane})", copy)
        head = f"for (int {var} = 4 * ({loop.first}); {var} < {loop.last}; {var} += 4 * ({loop.step}))"
        plain = text.code[loop.start : loop.end]
        new = f"if ({loop.last} % 4 == 0) {{ {head} {{{loads} {' '.join(lanes)} }} }} else {{ {plain} }}"
        code = text.code[: loop.start] + new + text.code[loop.end :]
        yield f"float4 reads in the loop over {var}: {body[:40]}", text.with_code(code)


def _read_hints(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Reads that name a path through the caches: another one, or none."""
    for old in sorted(set(re.findall(r"\b__ld(?:g|cs|cg|ca|lu)\b", text.code))):
        for new in ("__ldg", "__ldcs", "__ldcg", "__ldca"):
            if new != old:
                yield from replaced(text, rf"\b{old}\(", f"{new}(", f"{new} for {old}")
        yield from replaced(text, rf"\b{old}\((?!&)", "*(", f"plain reads for {old}")


def _write_hints(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Writes that name a path through the caches: another one."""
    for old in sorted(set(re.findall(r"\b__st(?:cs|cg|wt|wb)\b", text.code))):
        for new in ("__stcs", "__stcg", "__stwt", "__stwb"):
            if new != old:
                yield from replaced(text, rf"\b{old}\(", f"{new}(", f"{new} for {old}")


def _other_bounds(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Another number of blocks that should fit on a multiprocessor, or none."""
    bounds = r"__launch_bounds__\(\s*([^(),]+(?:\([^()]*\))?[^(),]*?)\s*(?:,\s*([^()]+))?\)"
    for match in re.finditer(bounds, text.code):
        for blocks in ("", "1", "2", "3", "4", "6", "8"):
            if blocks != (match[2] or "").strip():
                new = f"__launch_bounds__({match[1]}{', ' if blocks else ''}{blocks})"
                code = text.code[: match.start()] + new + text.code[match.end() :]
                yield f"{blocks or 'any number of'} blocks a multiprocessor", text.with_code(code)


def _partly_unrolled(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Loops that are unrolled whole: in parts, or not."""
    for match in re.finditer(r"#pragma unroll[ \t]*$", text.code, re.MULTILINE):
        for factor in ("1", "2", "4", "8"):
            code = f"{text.code[: match.start()]}#pragma unroll {factor}{text.code[match.end() :]}"
            yield f"unroll {factor} on code line {line_number(text.code, match.start())}", text.with_code(code)


def _quotients(text: Text, kernel: Kernel) -> Iterator[Edit]:
    """Reciprocals and square roots in one instruction."""
    yield from replaced(text, r"(?<![\w.])1\.0f / (\w+)(?=\s*[;,)])", r"__frcp_rn(\1)", "__frcp_rn for reciprocals")
    yield from replaced(text, r"\bsqrtf\(", "__fsqrt_rn(", "__fsqrt_rn")


CUDA_RULES: tuple[Rule, ...] = (
    Rule("block", ("cuda",), _block),
    Rule("launch-bounds", ("cuda",), _launch_bounds),
    Rule("loads", ("cuda",), _loads),
    Rule("stores", ("cuda",), _stores),
    Rule("fast-functions", ("cuda",), _fast_functions),
    Rule("shuffles", ("cuda",), _shuffles),
    Rule("padding", ("cuda",), _padding),
    Rule("vector", ("cuda",), _vector),
    Rule("read-hints", ("cuda",), _read_hints),
    Rule("write-hints", ("cuda",), _write_hints),
    Rule("bounds", ("cuda",), _other_bounds),
    Rule("part-unroll", ("cuda",), _partly_unrolled),
    Rule("quotients", ("cuda",), _quotients),
)
