# /// kforecast 1
# task = "vector_add"
# [[launch]]
# entry = "vector_add"
# args = ["a", "b", "c", "N"]
# grid = ["cdiv(N, BLOCK)"]
# [tune]
# BLOCK = [1024]
# ///
# expect: compile_error: prints_1gb.py:17: error: OSError: [Errno 27] File too large (it printed or wrote
import sys

import triton
import triton.language as tl

for _ in range(1024):
    sys.stdout.write("x" * (1 << 20))


@triton.jit
def vector_add(a, b, c, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, mask=at < N) + tl.load(b + at, mask=at < N), mask=at < N)
