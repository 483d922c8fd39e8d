"""The opcode mix of PTX: static counts by class, at once and without another tool. (PTX ISA, "Instruction Set".)"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from itertools import zip_longest

_FUNCTION = re.compile(
    r"^\s*(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$.]+)", re.MULTILINE
)
_INSTRUCTION = re.compile(r"^\s*(?:[\w$]+:\s*)?(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:[.:][\w:]+)*)(?=[\s;])")
_NOISE = re.compile(r"//[^\n]*|^\s*\.loc\b[^\n]*", re.MULTILINE)
_SPACES = ("global", "shared", "local", "const", "param")
_TYPES = re.compile(r"(?:[busf]|bf|tf|e\dm)\d+\w*|pred")
_MMA_TYPES = re.compile(
    r"f64|f32|tf32|bf16|f16|e4m3|e5m2|e2m1|e3m2|e2m3|[su]8|[su]4|b1|s32|f8f6f4|mxf4|mxf8f6f4|mxf4nvf4|i8"
)
_TYPED = {"add", "sub", "mul", "mad", "fma", "div", "min", "max", "rcp", "sqrt", "rsqrt", "abs", "neg"}
_MOVES = {"ld", "st", "ldu"}
_ATOMICS = {"atom", "red"}
_APPROXIMATE = {"div", "rcp", "sqrt", "rsqrt"}


def ptx_mix(ptx: str, symbols: Collection[str] | None = None) -> dict[str, int]:
    """How often each class of instruction stands in the bodies of `symbols` (default: of everything), most first.

    Classes: `ld.global.v4`, `st.shared`, `fma.f32`, `mma.bf16`, `cp.async`, `bar.sync`, `atom.global.add`, `ex2`, …:
    the opcode with what decides its cost. Counts are static: a loop's body counts once. Called functions count where
    they are named in `symbols`; the compiler inlines nearly all.
    """
    counts: Counter[str] = Counter()
    for symbol, body in _bodies(ptx):
        if symbols is None or symbol in symbols:
            for opcode, count in _opcodes(body).items():
                counts[_class(opcode)] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def precision_labels(ptx: str) -> tuple[str, ...]:
    """What the arithmetic of a program gives away about precision, sorted: the lower-precision operands of its matrix
    instructions (`mma-bf16`, `mma-tf32`, …) and `approximate-math` where division, roots or reciprocals are
    approximate.

    `ex2.approx` and `lg2.approx` earn no label: even the full-precision expf and logf use them after a range reduction.
    """
    labels = set()
    for _, body in _bodies(ptx):
        for opcode in _opcodes(body):
            parts = opcode.split(".")
            if parts[0] in ("mma", "wmma", "wgmma", "tcgen05") and (operand := _mma_operand(parts)):
                labels.add(f"mma-{operand}")
            elif parts[0] in _APPROXIMATE and "approx" in parts:
                labels.add("approximate-math")
    return tuple(sorted(labels))


_GLOBAL = re.compile(
    r"^\s*(?:\.visible\s+|\.weak\s+)?\.global\s[^;=]*?\s([\w$]+)(?:\[[\d\]\[]*)?\s*(=|;)", re.MULTILINE
)
_WRITES = ("st.", "atom.", "red.")


def writable_state(ptx: str) -> tuple[str, ...]:
    """Device variables that outlive a launch and that the program may write, sorted: memory a kernel can keep
    answers in.

    A variable counts where an instruction writes it by name, or takes its address and it has no initial value: a
    table of constants is initialised and only read. Headers leave variables behind that no instruction names; they
    do not count.
    """
    bodies = "\n".join(body for _, body in _bodies(ptx))
    found = set()
    for name, sign in _GLOBAL.findall(ptx):
        for line in re.findall(rf"^.*(?<![\w$]){re.escape(name)}(?![\w$]).*$", bodies, re.MULTILINE):
            opcode = re.sub(r"^\s*(?:@!?%\w+\s+)?", "", line)
            if opcode.startswith(_WRITES) or (sign == ";" and not opcode.startswith("ld.")):
                found.add(name)
    return tuple(sorted(found))


def entries_of(ptx: str) -> list[str]:
    """The entry symbols of a PTX module, in order."""
    return list(dict.fromkeys(symbol for kind, symbol in _FUNCTION.findall(ptx) if kind == "entry"))


def merge(mixes: Mapping[str, dict[str, int]]) -> dict[str, int]:
    """One mix of several entries' mixes."""
    total: Counter[str] = Counter()
    for mix in mixes.values():
        total.update(mix)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _bodies(ptx: str) -> list[tuple[str, str]]:
    """Each defined function's symbol and the text between its braces; declarations have none."""
    heads = list(_FUNCTION.finditer(ptx))
    found = []
    for head, following in zip_longest(heads, heads[1:]):
        text = ptx[head.end() : following.start() if following else len(ptx)]
        opening, end = text.find("{"), text.find(";")
        if opening >= 0 and not 0 <= end < opening:
            found.append((head.group(2), text[opening + 1 : text.rfind("}")]))
    return found


@lru_cache(maxsize=4)
def _opcodes(body: str) -> Counter[str]:
    """How often each opcode stands there. Kept, as the same bodies are looked at for more than one purpose."""
    # Statements end with `;` wherever the line ends (a call spans several lines, inline assembly puts several on one);
    # `.loc` lines end with nothing.
    text = _NOISE.sub("", body)
    matches = (_INSTRUCTION.match(statement + ";") for statement in re.split(r"[{};]", text))
    return Counter(match.group(1) for match in matches if match)


@lru_cache(maxsize=4096)
def _class(opcode: str) -> str:
    parts = opcode.replace("::", ".").split(".")
    name = parts[0]
    if name in _MOVES:
        space = [part for part in parts if part in _SPACES][:1]
        kept = [part for part in parts if part in ("nc", "v2", "v4", "v8")]
        result = [name, *space, *kept]
    elif name in _ATOMICS:
        space = [part for part in parts if part in _SPACES][:1]
        operation = [p for p in parts if p in ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")]
        result = [name, *(space or ["generic"]), *operation[:1]]
    elif name in ("mma", "wmma", "wgmma", "tcgen05"):
        operand = _mma_operand(parts)
        result = [name, operand] if operand else parts[: 3 if name == "tcgen05" else 2]
    elif name == "cp":
        result = [part for part in parts[:3] if part in ("cp", "async", "bulk", "commit_group", "wait_group", "reduce")]
        kinds = ("commit_group", "wait_group", "wait_all", "tensor")
        result += [part for part in parts if part in kinds and part not in result]
    elif name in ("bar", "barrier", "mbarrier", "fence", "membar"):
        result = parts[:2]
    elif name in _TYPED:
        types = [part for part in parts[1:] if _TYPES.fullmatch(part)]
        packed = [part for part in types if part.endswith("x2")]
        result = [name, *(packed or types)[-1:]]
    else:
        result = [name]
    return ".".join(result)


def _mma_operand(parts: list[str]) -> str | None:
    """The element type of a matrix instruction's first factor; None for its loads, stores, fences and waits."""
    if "mma" not in parts and "mma_async" not in parts:
        return None
    types = [part for part in parts if _MMA_TYPES.fullmatch(part)]
    if parts[0] == "tcgen05":
        return types[0] if types else None
    # d, a, b, c for mma and wmma; d, a, b for wgmma; d, c alone for wmma on f16.
    return types[1] if len(types) > 2 else "f16"
