"""The reference of the kernels here that bring their own task."""

from __future__ import annotations

from typing import Any


def reference(xp: Any, inputs: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    return {"c": inputs["a"] + inputs["b"]}
