"""y[g, c, l] = sum over t of w[c, t] x[g, c, l - T + 1 + t], with x = 0 left of the start."""

from __future__ import annotations

from typing import Any

Arrays = dict[str, Any]


def reference(xp: Any, inputs: Arrays, sizes: dict[str, int]) -> Arrays:
    x, w = inputs["x"], inputs["w"]
    length, taps = sizes["L"], sizes["T"]
    y = xp.zeros_like(x)
    for tap in range(taps):
        shift = taps - 1 - tap
        if shift < length:
            y[..., shift:] += w[:, tap, None] * x[..., : length - shift]
    return {"y": y}


def terms(sizes: dict[str, int]) -> int:
    return sizes["T"]
