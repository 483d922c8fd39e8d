# /// kforecast 1
# task = "sum_all"
# [scratch]
# parts = { dtype = "f32", shape = ["PARTS"] }
# [[launch]]
# entry = "sum_part"
# args = ["x", "parts", "N"]
# grid = ["PARTS"]
# [[launch]]
# entry = "sum_parts"
# args = ["parts", "y"]
# grid = [1]
# [tune]
# PARTS = [1024, 512]
# BLOCK = [2048]
# num_warps = [8, 4]
# ///
"""Two launches with scratch memory between them."""

import triton
import triton.language as tl


@triton.jit
def sum_part(x, parts, N, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, PARTS * BLOCK):
        total += tl.load(x + start + at, mask=start + at < N, other=0.0)
    tl.store(parts + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def sum_parts(parts, y, PARTS: tl.constexpr):
    tl.store(y, tl.sum(tl.load(parts + tl.arange(0, PARTS)), 0))
