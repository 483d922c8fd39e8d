# /// kforecast 1
# task = "gemm_bf16"
# [[launch]]
# entry = "gemm_bf16"
# args = ["A", "B", "C", "M", "N", "K", "K", "K", "N", 1]
# grid = ["cdiv(M, BM) * cdiv(N, BN)"]
# [tune]
# BM = [128, 64]
# BN = [128, 256]
# BK = [64, 32]
# GROUP = [8]
# num_warps = [8, 4]
# num_stages = [3, 4]
# ///
"""C = A B^T, as in Triton's tutorial: blocks of C in groups of rows, so that neighbours share what is in L2."""

import triton
import triton.language as tl


@triton.jit
def place(block, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    across = tl.cdiv(N, BN)
    first = block // (GROUP * across) * GROUP
    height = tl.minimum(tl.cdiv(M, BM) - first, GROUP)
    within = block % (GROUP * across)
    return first + within % height, within // height


@triton.jit
def gemm_bf16(
    A, B, C, M, N, K, stride_a, stride_b, stride_c, stride_inner,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    down, right = place(tl.program_id(0), M, N, BM, BN, GROUP)
    rows = down * BM + tl.arange(0, BM)
    columns = right * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a = A + (rows % M)[:, None] * stride_a + inner[None, :] * stride_inner
    b = B + (columns % N)[None, :] * stride_b + inner[:, None] * stride_inner
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a, mask=inner[None, :] < K - start, other=0.0)
        sums = tl.dot(left, tl.load(b, mask=inner[:, None] < K - start, other=0.0), sums)
        a += BK * stride_inner
        b += BK * stride_inner
    at = C + rows[:, None] * stride_c + columns[None, :]
    tl.store(at, sums.to(tl.bfloat16), mask=(rows[:, None] < M) & (columns[None, :] < N))
