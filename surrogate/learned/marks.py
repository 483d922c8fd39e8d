"""What sets a kernel apart from others of its task: its lines, options, launches and tunable values, as a set of marks.

Variants of one file differ in a line or two of a hundred; shares of common text hardly tell them apart, the marks that
only one of them has do.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Sequence

import numpy as np

from ...store.models import Kernel
from ..density import Array
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


def unlike(kernels: Sequence[Kernel]) -> Array:
    """(n, n) numbers of marks that only one of two kernels has."""
    sets = [marks(kernel) for kernel in kernels]
    place = {mark: index for index, mark in enumerate(sorted(frozenset().union(*sets)))}
    table = np.zeros((len(sets), max(1, len(place))))
    for row, one in enumerate(sets):
        table[row, [place[mark] for mark in one]] = 1.0
    sizes = table.sum(axis=1)
    return np.asarray(sizes[:, None] + sizes[None] - 2 * table @ table.T)


def apart(kernels: Sequence[Kernel]) -> Array:
    """(n, n) squared distances of tunable values, octaves; a tunable that only one of the two has counts as one."""
    names = sorted({name for kernel in kernels for name in kernel.tunables})
    values = np.array(
        [[math.log2(max(1, kernel.tunables.get(name, 1))) for name in names] for kernel in kernels]
    ).reshape(len(kernels), len(names))
    have = np.array([[name in kernel.tunables for name in names] for kernel in kernels], dtype=bool)
    have = have.reshape(values.shape)
    both = have[:, None] & have[None]
    return np.asarray(np.where(both, (values[:, None] - values[None]) ** 2, have[:, None] != have[None]).sum(axis=2))
