"""y = x / sqrt(mean(x^2) + 1e-6) w, row by row (arXiv 1910.07467)."""

from __future__ import annotations

from typing import Any

Arrays = dict[str, Any]


def reference(xp: Any, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    x = inputs["x"]
    y = x / xp.sqrt(xp.square(x).mean(axis=1, keepdims=True) + 1e-6)
    y *= inputs["w"]
    return {"y": y}


def terms(sizes: dict[str, int]) -> int:
    return sizes["C"]
