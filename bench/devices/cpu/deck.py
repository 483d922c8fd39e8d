"""Which contents each cold call of a process gets, so that a kernel which keeps answers has nothing to give back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .memory import Array

CHANGED_SHARE = 0.25
"""Of the repetitions within a process, those whose contents are changed first; each costs a golden of its own."""
_TRIES = 64


class Deck:
    """The cold calls of one process: every set once in random order, then again and again, some of them changed.

    So where calls are few (slow kernels) nothing is seen twice; where they are many (short ones), a kernel would have
    to read all of its inputs to know them again. `honest=False` draws with repetition and never changes: for tests.
    """

    def __init__(self, sets: int, random: np.random.Generator, *, honest: bool = True) -> None:
        self._sets = sets
        self._random = random
        self._honest = honest
        self._left: list[int] = []
        self._rounds = 0

    def draw(self) -> tuple[int, bool]:
        """The number of the set, and whether to change it first."""
        if not self._honest:
            return int(self._random.integers(self._sets)), False
        if not self._left:
            self._left = [int(number) for number in self._random.permutation(self._sets)]
            self._rounds += 1
        return self._left.pop(), self._rounds > 1 and self._random.random() < CHANGED_SHARE


def exchanged(inputs: Mapping[str, Array], random: np.random.Generator) -> dict[str, Array]:
    """Copies in which each input has two random elements exchanged: values as valid as before, and not the same.

    An input of equal elements stays as it is.
    """
    copies = {name: array.copy() for name, array in inputs.items()}
    for array in copies.values():
        bits = array.reshape(-1).view(f"u{array.itemsize}")
        places = random.integers(bits.size, size=(_TRIES, 2))
        differ = np.flatnonzero(bits[places[:, 0]] != bits[places[:, 1]])
        if differ.size:
            pair = places[differ[0]]
            bits[pair] = bits[pair[::-1]]
    return copies
