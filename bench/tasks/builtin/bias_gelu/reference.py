"""y = v / 2 (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))), v = x + b: the tanh form of arXiv 1606.08415, section 2."""

from __future__ import annotations

import math
from typing import Any

Arrays = dict[str, Any]


def reference(xp: Any, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    v = inputs["x"] + inputs["b"]
    inner = v * v
    inner *= 0.044715
    inner += 1
    inner *= v
    inner *= math.sqrt(2 / math.pi)
    xp.tanh(inner, out=inner)
    inner += 1
    inner *= v
    inner *= 0.5
    return {"y": inner}
