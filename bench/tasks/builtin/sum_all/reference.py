"""y[0] = the sum of x."""

from __future__ import annotations

from typing import Any

Arrays = dict[str, Any]


def reference(xp: Any, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    return {"y": inputs["x"].sum().reshape(1)}


def scale(xp: Any, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    # A sum may cancel to anything; its rounding errors follow the terms, as the root of their squares does.
    x = inputs["x"]
    return {"y": xp.maximum(abs(x.sum()), xp.sqrt(xp.square(x).sum())).reshape(1)}


def terms(sizes: dict[str, int]) -> int:
    return sizes["N"]
