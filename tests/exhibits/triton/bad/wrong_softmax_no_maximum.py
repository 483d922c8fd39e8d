# /// kforecast 1
# task = "softmax_rows"
# [[launch]]
# entry = "softmax_rows"
# args = ["x", "y", "C"]
# grid = ["R"]
# [tune]
# BLOCK = [8192]
# num_warps = [8]
# ///
# expect: incorrect: exp overflows
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, C, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    power = tl.exp(tl.load(x + tl.program_id(0) * C + at, mask=at < C, other=float("-inf")))
    tl.store(y + tl.program_id(0) * C + at, power / tl.sum(power, 0), mask=at < C)
