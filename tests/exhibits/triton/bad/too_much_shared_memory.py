# /// kforecast 1
# task = "gemm_bf16"
# [[launch]]
# entry = "gemm"
# args = ["A", "B", "C", "M", "N", "K"]
# grid = ["cdiv(M, 64)", "cdiv(N, 64)"]
# [tune]
# BK = [512]
# num_stages = [4]
# ///
# expect: compile_error: bytes of shared memory, and the device allows 232448
import triton
import triton.language as tl


@triton.jit
def gemm(A, B, C, M, N, K, BK: tl.constexpr):
    rows = tl.program_id(0) * 64 + tl.arange(0, 64)
    columns = tl.program_id(1) * 64 + tl.arange(0, 64)
    inner = tl.arange(0, BK)
    sums = tl.zeros((64, 64), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(A + (rows % M)[:, None] * K + (start + inner)[None, :])
        b = tl.load(B + (columns % N)[None, :] * K + (start + inner)[:, None])
        sums = tl.dot(a, b, sums)
    tl.store(C + rows[:, None] * N + columns[None, :], sums, mask=(rows[:, None] < M) & (columns[None, :] < N))
