# /// kforecast 1
# task = "vector_add"
# [[launch]]
# entry = "vector_add"
# args = ["a", "b", "c", "N"]
# grid = ["cdiv(N, BLOCK)"]
# [tune]
# BLOCK = [1024]
# ///
# expect: compile_error: unknown_function.py:18:53: error: AttributeError: module 'triton.language' has no att
import triton
import triton.language as tl


@triton.jit
def vector_add(a, b, c, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, mask=at < N) + tl.laod(b + at, mask=at < N), mask=at < N)
