# /// kforecast 1
# task = "softmax_rows"
# [[launch]]
# entry = "softmax_rows"
# args = ["x", "y", "C"]
# grid = ["R"]
# constexpr = { BLOCK = "pow2ceil(C)" }
# [tune]
# num_warps = [8, 4]
# ///
"""As in Triton's tutorial: a block as wide as a row, so one program for each width."""

import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, C, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * C + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < C
    value = tl.load(x + at, mask=inside, other=float("-inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + at, power / tl.sum(power, 0), mask=inside)
