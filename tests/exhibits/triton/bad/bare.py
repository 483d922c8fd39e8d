# expect: refused: the file has no kernel header
import triton
import triton.language as tl


@triton.jit
def vector_add(a, b, c, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at, mask=at < N) + tl.load(b + at, mask=at < N), mask=at < N)
