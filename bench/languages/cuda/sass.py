"""The instruction mix of SASS, by disassembling a cubin. (CUDA Binary Utilities, "Instruction Set Reference".)"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from ....store.errors import DeviceError
from .pool import CompilePool, shared_pool

_LOG_BYTES = 64 << 20
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)|^\s*Function : (\S+)")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[\w]+)*)")
_KEPT = {
    "MUFU": re.compile(r"EX2|LG2|RCP|RSQ|SQRT|SIN|COS|TANH|RCP64H|RSQ64H"),
    "HMMA": re.compile(r"\d{4,}|F32|F16|BF16|TF32"),
    "IMMA": re.compile(r"\d{4,}|S8|U8|S4|U4"),
    "DMMA": re.compile(r"\d+"),
    "QMMA": re.compile(r"\d{4,}|E4M3|E5M2"),
    "HGMMA": re.compile(r"\d+x\d+x\d+|F32|F16|BF16|TF32"),
    "QGMMA": re.compile(r"\d+x\d+x\d+|E4M3|E5M2"),
    "IGMMA": re.compile(r"\d+x\d+x\d+|S8|U8"),
    "BAR": re.compile(r"SYNC|ARV|RED"),
}
_MEMORY = re.compile(r"LDG|STG|LDS|STS|LDL|STL|LD|ST|LDGSTS|LDSM|STSM|LDC")
_WIDTH = re.compile(r"U?8|S8|U16|S16|64|128|256|16|32|M88|4|2")


def sass_mix(
    cubin: Path, symbols: Collection[str] | None = None, *, pool: CompilePool | None = None, deadline_s: float = 60.0
) -> dict[str, int]:
    """How often each class of SASS instruction stands in the code of `symbols` (default: all), most first.

    Classes are the opcode with what decides its cost: `LDG.128`, `HMMA.16816.F32.BF16`, `MUFU.EX2`, `FFMA`. NOP
    padding is left out. Runs nvdisasm, else cuobjdump, in the compile pool (about 0.1 to 0.5 s). Raises DeviceError
    without either.
    """
    pool = pool or shared_pool()
    tools = pool.toolchain
    if tools.nvdisasm is not None:
        command = [str(tools.nvdisasm), "--print-code", "a.cubin"]
    elif tools.cuobjdump is not None:
        command = [str(tools.cuobjdump), "--dump-sass", "a.cubin"]
    else:
        raise DeviceError(
            "no disassembler found: neither nvdisasm nor cuobjdump",
            next_step="Install them with: pip install 'kforecast[cuda-compile]'.",
        )
    outcome = pool.run([command], files={"a.cubin": cubin.read_bytes()}, log_bytes=_LOG_BYTES, deadline_s=deadline_s)
    if not outcome.ok:
        raise DeviceError(
            f"{Path(command[0]).name} could not read the cubin ({(outcome.failure or outcome.log).strip()[:300]})",
            value=cubin,
            next_step="Use a disassembler at least as new as the compiler.",
        )
    return count_sass(outcome.log, symbols)


def count_sass(listing: str, symbols: Collection[str] | None = None) -> dict[str, int]:
    """The mix of a listing by nvdisasm or `cuobjdump -sass`."""
    counts: Counter[str] = Counter()
    wanted = symbols is None
    for line in listing.splitlines():
        if match := _SECTION.match(line):
            wanted = symbols is None or (match.group(1) or match.group(2)) in symbols
        elif wanted and (match := _INSTRUCTION.match(line)):
            counts[_class(match.group(1))] += 1
    del counts["NOP"]
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def precision_labels(mix: dict[str, int]) -> tuple[str, ...]:
    """The operand types of a SASS mix's matrix instructions as labels, sorted (`mma-bf16`, `mma-tf32`, …)."""
    labels = set()
    for name in mix:
        opcode, *parts = name.split(".")
        if opcode in ("HMMA", "HGMMA"):
            kinds = [part for part in parts if part in ("BF16", "TF32")]
            labels.add(f"mma-{kinds[0].lower() if kinds else 'f16'}")
        elif opcode in ("QMMA", "QGMMA", "IMMA", "IGMMA"):
            labels.update(f"mma-{part.lower()}" for part in parts if not part[0].isdigit())
        elif opcode == "DMMA":
            labels.add("mma-f64")
    return tuple(sorted(labels))


def _class(instruction: str) -> str:
    opcode, *parts = instruction.split(".")
    if opcode in _KEPT:
        kept = list(dict.fromkeys(part for part in parts if _KEPT[opcode].fullmatch(part)))
    elif _MEMORY.fullmatch(opcode):
        kept = [part for part in parts if _WIDTH.fullmatch(part)]
    else:
        kept = []
    return ".".join([opcode, *kept])
