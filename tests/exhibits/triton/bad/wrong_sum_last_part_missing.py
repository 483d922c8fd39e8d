# /// kforecast 1
# task = "sum_all"
# [[launch]]
# entry = "sum_all"
# args = ["x", "y", "N"]
# grid = [1]
# [tune]
# BLOCK = [1024]
# ///
# expect: incorrect: what is left over of the last block is not added
import triton
import triton.language as tl


@triton.jit
def sum_all(x, y, N, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N - BLOCK + 1, BLOCK):
        total += tl.load(x + start + tl.arange(0, BLOCK))
    tl.store(y, tl.sum(total, 0))
