"""idx = the first position of every row's maximum."""

from __future__ import annotations

from typing import Any

Arrays = dict[str, Any]


def reference(xp: Any, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    return {"idx": inputs["x"].argmax(axis=1).astype(xp.int32)}
