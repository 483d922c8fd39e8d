"""How a PTX entry of Triton's is called: its parameters, the threads of its blocks, its cluster. Read from the text
that is assembled, not from what was said of it.

After a kernel's own arguments Triton adds one or two pointers, to scratch memory in global memory and to a profiler's
(`backends/nvidia/driver.py`); a kernel that needs neither is given null pointers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ....store.models import Dtype
from ..build import FormParameter

MOST_TRAILING = 2
_ENTRY = re.compile(r"\.visible\s+\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.([busf])(\d+)(?:\s*\.\w+)*?(?:\s+\.align\s+\d+)?\s+[\w$]+\s*(\[)?"
)
_THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_CLUSTER = re.compile(r"\.reqnctapercluster\s+(\d+)")
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_DEFINED = re.compile(
    r"^\s*(?:\.(?:visible|weak|common)\s+)*\.(?:entry|func\s*(?:\([^)]*\))?|(?:global|const)\b[^;={]*?)\s+([\w$]+)\s*[(\[=;]",
    re.MULTILINE,
)
_LINES = (
    re.compile(r"[ \t]*//[^\n]*"),
    re.compile(r"^[ \t]*\.section[ \t]+\.debug_\w+\s*\{.*?\}[ \t]*\n?", re.MULTILINE | re.DOTALL),
    re.compile(r"^[ \t]*\.(?:loc|file)\b[^\n]*\n", re.MULTILINE),
    re.compile(r"^\$L__(?:tmp|func_begin|func_end|pre_scope)\w*:[ \t]*\n", re.MULTILINE),
    re.compile(r"^[ \t]*\n", re.MULTILINE),
)
_BITS: dict[Dtype, int] = {
    "f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "u64": 64, "u32": 32,
    "u16": 16, "u8": 8,
}  # fmt: skip


@dataclass(frozen=True)
class EntryAbi:
    """bits: of each parameter, in order; threads: of a block, None where the PTX leaves it open; ctas: of a cluster."""

    symbol: str
    bits: tuple[int, ...]
    threads: int | None
    ctas: int
    target: str


def read_abi(ptx: str) -> EntryAbi:
    """The one entry of a PTX text. Raises ValueError where there is not exactly one that can be called."""
    entries = list(_ENTRY.finditer(ptx))
    target = _TARGET.search(ptx)
    if len(entries) != 1 or target is None:
        raise ValueError(f"its PTX has {len(entries)} entries{'' if target else ' and no target'}")
    symbol, parameters, directives = entries[0].groups()
    bits = []
    for text in filter(None, (part.strip() for part in parameters.split(","))):
        match = _PARAMETER.match(text)
        if match is None or match[3]:
            raise ValueError(f"its PTX takes a parameter that no argument of a header can be: {text}")
        bits.append(int(match[2]))
    threads = _THREADS.search(directives)
    cluster = _CLUSTER.search(directives)
    return EntryAbi(
        symbol,
        tuple(bits),
        None if threads is None else int(threads[1]) * int(threads[2] or 1) * int(threads[3] or 1),
        1 if cluster is None else int(cluster[1]),
        target[1],
    )


def without_lines(ptx: str) -> str:
    """The text without line tables and comments: they name folders that are gone, and change no program."""
    for pattern in _LINES:
        ptx = pattern.sub("", ptx)
    return ptx


def trailing_pointers(abi: EntryAbi, parameters: Sequence[FormParameter]) -> int:
    """How many pointers follow the arguments. Raises ValueError where the PTX does not take what the form passes."""
    passed = [64 if one.dtype is None else _BITS[one.dtype] for one in parameters if one.equals is None]
    rest = abi.bits[len(passed) :]
    if list(abi.bits[: len(passed)]) != passed or len(rest) > MOST_TRAILING or any(bits != 64 for bits in rest):
        raise ValueError(f"its PTX takes parameters of {list(abi.bits)} bits, and the arguments have {passed}")
    return len(rest)


def renamed(ptx: str, suffix: str) -> str:
    """The text with everything that it defines renamed, so that several can be assembled into one cubin."""
    names = sorted(set(_DEFINED.findall(ptx)), key=len, reverse=True)
    if not names:
        return ptx
    pattern = re.compile(rf"(?<![\w$.%])(?:{'|'.join(map(re.escape, names))})(?![\w$])")
    return pattern.sub(lambda match: match.group() + suffix, ptx)
