"""o = softmax(q k^T / sqrt(D)) v, one head at a time (arXiv 1706.03762, section 3.2.1)."""

from __future__ import annotations

import math
from typing import Any

Arrays = dict[str, Any]


def reference(xp: Any, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    o = xp.empty_like(q)
    for head in range(sizes["H"]):
        weights = q[head] @ k[head].T
        weights *= 1 / math.sqrt(sizes["D"])
        weights -= weights.max(axis=1, keepdims=True)
        xp.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        o[head] = weights @ v[head]
    return {"o": o}


def terms(sizes: dict[str, int]) -> int:
    return sizes["S"] + sizes["D"]
