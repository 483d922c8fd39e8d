# /// kforecast 1
# task = "vector_add"
# [[launch]]
# entry = "vector_add"
# args = ["a", "b", "c", "N"]
# grid = ["cdiv(N, BLOCK)"]
# [tune]
# BLOCK = [1024]
# ///
# expect: compile_error: still running after
import triton
import triton.language as tl

while True:
    pass


@triton.jit
def vector_add(a, b, c, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, mask=at < N) + tl.load(b + at, mask=at < N), mask=at < N)
