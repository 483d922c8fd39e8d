"""What sets a kernel apart from others of its task: its lines, options, launches and tunable values, as a set of marks.

Variants of one file differ in a line or two of a hundred; shares of common text hardly tell them apart, the marks that
only one of them has do.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict

from ...store.models import Kernel
from ..structure import plain

_MOST_KEPT = 4096
_kept: OrderedDict[str, frozenset[str]] = OrderedDict()


def marks(kernel: Kernel) -> frozenset[str]:
    """The marks of a kernel; blind to comments and layout. A line that stands there twice gives two marks."""
    found = _kept.get(kernel.id)
    if found is None:
        found = _kept[kernel.id] = frozenset(_marks(kernel))
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return found


def _marks(kernel: Kernel) -> list[str]:
    lines = Counter(line for text in plain(kernel).split("\n") if (line := text.strip()) not in ("", "{", "}"))
    found = [f"{line}\n{number}" for line, count in lines.items() for number in range(count)]
    found += [f"option {option}" for option in kernel.options]
    found += [f"tunable {name} {value}" for name, value in kernel.tunables.items()]
    found += [f"launch {launch.grid} {launch.block} {launch.smem}" for launch in kernel.launches]
    return found


def unlike(one: Kernel, other: Kernel) -> int:
    """The number of marks that only one of two kernels has."""
    return len(marks(one) ^ marks(other))


def apart(one: Kernel, other: Kernel) -> float:
    """Squared distance of tunable values, in octaves; a tunable that only one of two kernels has counts as one."""
    a, b = one.tunables, other.tunables
    shared = sum(math.log2(max(1, a[name]) / max(1, b[name])) ** 2 for name in a.keys() & b.keys())
    return shared + len(a.keys() ^ b.keys())
