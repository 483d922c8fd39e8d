# /// kforecast 1
# task = "vector_add"
# [[launch]]
# entry = "vector_add"
# args = ["a", "b", "c", "N"]
# grid = ["cdiv(N, 1024)"]
# ///
# expect: compile_error: a constexpr of the kernel on line 15 has no value: BLOCK
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 512})], key=["N"])
@triton.jit
def vector_add(a, b, c, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, mask=at < N) + tl.load(b + at, mask=at < N), mask=at < N)
