# /// kforecast 1
# task = "vector_add"
# [[launch]]
# entry = "vector_add"
# args = ["a", "b", "c", "N"]
# grid = ["cdiv(N, BLOCK)"]
# [tune]
# BLOCK = [1024]
# ///
# expect: compile_error: type_error.py:17:12: error:
import triton
import triton.language as tl


@triton.jit
def joined(left, right):
    return left @ right


@triton.jit
def vector_add(a, b, c, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, joined(tl.load(a + at, mask=at < N), a), mask=at < N)
