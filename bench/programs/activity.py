"""What the injected library wrote: one record a kernel, copy or fill, and their sums."""

from __future__ import annotations

import math
import shutil
import statistics
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_RECORD = struct.Struct("<IIIIQQQ")
_NAME, _KERNEL, _COPY, _FILL, _DROPPED, _FAILED = range(1, 7)
_COPIES = {1: "host to device", 2: "device to host", 8: "device to device", 10: "peer to peer"}
"""CUpti_ActivityMemcpyKind."""
_DEMANGLE_S = 10.0


@dataclass(frozen=True)
class Kind:
    """All launches of one kernel, or all copies of one kind. Times in microseconds on the device's clock.

    spread_us: standard deviation over the launches; None of one launch.
    """

    name: str
    launches: int
    total_us: float
    mean_us: float
    least_us: float
    most_us: float
    spread_us: float | None
    bytes: int = 0


@dataclass(frozen=True)
class Activity:
    """What a program did on the devices. busy_us: from the first kernel's begin to the last one's end."""

    kernels: tuple[Kind, ...] = ()
    copies: tuple[Kind, ...] = ()
    dropped: int = 0
    failures: tuple[str, ...] = ()

    @property
    def kernel_us(self) -> float:
        return math.fsum(kind.total_us for kind in self.kernels)


@dataclass
class _Sum:
    times_us: list[float] = field(default_factory=list)
    bytes: int = 0

    def kind(self, name: str) -> Kind:
        times = self.times_us
        return Kind(
            name=name,
            launches=len(times),
            total_us=math.fsum(times),
            mean_us=statistics.fmean(times),
            least_us=min(times),
            most_us=max(times),
            spread_us=statistics.stdev(times) if len(times) > 1 else None,
            bytes=self.bytes,
        )


def read_activity(data: bytes) -> Activity:
    """The sums over all records, kernels and copies by total time, longest first.

    The file is the program's to write as well: what is no record ends the reading, and is told as a failure.
    """
    kernels: dict[str, _Sum] = defaultdict(_Sum)
    copies: dict[str, _Sum] = defaultdict(_Sum)
    names: dict[tuple[int, int], str] = {}
    failures: list[str] = []
    dropped = place = 0
    while place < len(data):
        if len(data) - place < _RECORD.size:
            failures.append("the list of launches ends within a record")
            break
        kind, process, number, _, start, end, size = _RECORD.unpack_from(data, place)
        place += _RECORD.size
        if kind in (_NAME, _FAILED):
            text = data[place : place + size].decode(errors="replace")
            place += size
            if kind == _NAME:
                names[process, number] = text
            else:
                failures.append(f"CUPTI: {text}")
        elif kind == _DROPPED:
            dropped += size
        elif kind in (_KERNEL, _COPY, _FILL) and end >= start:
            group = kernels if kind == _KERNEL else copies
            of = group[_called(kind, names.get((process, number)), number)]
            of.times_us.append((end - start) / 1e3)
            of.bytes += size
        elif kind not in (_KERNEL, _COPY, _FILL):
            failures.append("the list of launches holds something else")
            break
    readable = demangled(kernels)
    return Activity(
        kernels=_ranked({readable[name]: found for name, found in kernels.items()}),
        copies=_ranked(copies),
        dropped=dropped,
        failures=tuple(dict.fromkeys(failures)),
    )


def _called(kind: int, name: str | None, number: int) -> str:
    if kind == _KERNEL:
        return name or "(unnamed)"
    return "fill" if kind == _FILL else f"copy, {_COPIES.get(number, 'other')}"


def _ranked(found: Mapping[str, _Sum]) -> tuple[Kind, ...]:
    return tuple(sorted((one.kind(name) for name, one in found.items()), key=lambda kind: (-kind.total_us, kind.name)))


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Each name as people write it, by c++filt; as it is where there is none. Two never become one."""
    wanted = list(names)
    tool = shutil.which("c++filt") or shutil.which("llvm-cxxfilt")
    given = {name: name for name in wanted}
    if tool is None or not any(name.startswith("_Z") for name in wanted):
        return given
    try:
        told = subprocess.run(
            [tool], input="\n".join(wanted), capture_output=True, text=True, timeout=_DEMANGLE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return given
    lines = told.stdout.splitlines()
    if told.returncode or len(lines) != len(wanted) or len(set(lines)) != len(lines):
        return given
    return (
        {name: _short(line) for name, line in zip(wanted, lines, strict=True)}
        if _apart(lines)
        else dict(zip(wanted, lines, strict=True))
    )


def _short(signature: str) -> str:
    """The name of a function without its result and its parameters: `scale<float, 4>`."""
    depth = 0
    for place in range(len(signature) - 1, -1, -1):
        depth += (signature[place] == ")") - (signature[place] == "(")
        if depth == 0 and signature[place] == "(":
            return signature[:place].removeprefix("void ").strip() or signature
    return signature


def _apart(lines: Sequence[str]) -> bool:
    short = [_short(line) for line in lines]
    return len(set(short)) == len(short)
