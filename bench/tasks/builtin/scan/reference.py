"""y[n] = x[0] + ... + x[n]."""

from __future__ import annotations

from typing import Any

Arrays = dict[str, Any]


def reference(xp: Any, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    return {"y": xp.cumsum(inputs["x"], dtype=inputs["x"].dtype)}


def scale(xp: Any, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    # Every prefix against its own terms: beside the last prefix an error in the first ones would vanish.
    x = inputs["x"]
    return {"y": xp.maximum(abs(xp.cumsum(x)), xp.sqrt(xp.cumsum(xp.square(x))))}


def terms(sizes: dict[str, int]) -> int:
    # A serial scan's growth is in the reference's own error wherever the reference is serial too, as numpy's is.
    return min(sizes["N"], 4096)
