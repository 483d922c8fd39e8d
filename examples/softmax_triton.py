# /// kforecast 1
# task = "softmax_rows"                # gives the names x, y, R, C
# [[launch]]
# entry = "softmax_rows"
# args  = ["x", "y", "R", "C"]         # what is no constexpr, in parameter order
# grid  = ["R"]                        # no block: it follows from num_warps
# [tune]                               # constexprs by name; num_warps and num_stages go to the compiler
# BLOCK     = [4096, 2048, 1024]
# num_warps = [8, 4, 16]
# ///
"""Softmax of every row. A row that fits into a block is read once, a longer one twice: maximum and sum come first."""

import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, R, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * C
    y += row * C
    at = tl.arange(0, BLOCK)
    if C <= BLOCK:
        value = tl.load(x + at, mask=at < C, other=float("-inf"))
        power = tl.exp(value - tl.max(value, 0))
        tl.store(y + at, power / tl.sum(power, 0), mask=at < C)
    else:
        most = tl.full((BLOCK,), float("-inf"), tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, C, BLOCK):
            value = tl.load(x + start + at, mask=start + at < C, other=float("-inf"))
            higher = tl.maximum(most, value)
            # A lane that has seen nothing but -inf has no sum yet: -inf - -inf would be NaN.
            kept = tl.where(most == float("-inf"), 0.0, total * tl.exp(most - higher))
            total = kept + tl.where(value == float("-inf"), 0.0, tl.exp(value - higher))
            most = higher
        top = tl.max(most, 0)
        total = tl.where(most == float("-inf"), 0.0, total * tl.exp(most - top))
        scale = 1.0 / tl.sum(total, 0)
        for start in range(0, C, BLOCK):
            value = tl.load(x + start + at, mask=start + at < C)
            tl.store(y + start + at, tl.exp(value - top) * scale, mask=start + at < C)
