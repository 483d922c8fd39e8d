# /// kforecast 1
# task = "bias_gelu"
# [[launch]]
# entry = "bias_gelu"
# args = ["x", "b", "y", "C"]
# grid = ["cdiv(C, BLOCK)", "R"]
# [tune]
# BLOCK = [1024, 512, 2048]
# num_warps = [4, 8]
# ///
"""The tanh of the tanh-form GELU by a sigmoid, tanh(u) = 2 sigmoid(2 u) - 1, whose overflow is the right limit."""

import triton
import triton.language as tl


@triton.jit
def gelu(z):
    # 1.5957… is 2 sqrt(2 / pi)
    return z / (1.0 + tl.exp(-1.5957691216057308 * (z + 0.044715 * z * z * z)))


@triton.jit
def bias_gelu(x, b, y, C, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(1).to(tl.int64) * C + column
    value = tl.load(x + at, mask=column < C) + tl.load(b + column, mask=column < C)
    tl.store(y + at, gelu(value), mask=column < C)
