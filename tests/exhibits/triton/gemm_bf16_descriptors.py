# /// kforecast 1
# task = "gemm_bf16"
# [[launch]]
# entry = "gemm_bf16"
# args = ["A", "B", "C", "M", "N", "K"]
# grid = ["cdiv(M, BM) * cdiv(N, BN)"]
# constexpr = { ALIGNED = "1 - min(K % 8, 1)" }   # the tensor memory accelerator wants strides of 16 bytes
# [tune]
# BM = [128]
# BN = [128, 256]
# BK = [64]
# num_warps = [8]
# num_stages = [4, 3]
# ///
"""C = A B^T by tensor descriptors that the device makes, where rows are aligned; else by pointers."""

import triton
import triton.language as tl


@triton.jit
def gemm_bf16(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ALIGNED: tl.constexpr):
    across = tl.cdiv(N, BN)
    row, column = tl.program_id(0) // across * BM, tl.program_id(0) % across * BN
    rows, columns, inner = row + tl.arange(0, BM), column + tl.arange(0, BN), tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    if ALIGNED:
        a = tl.make_tensor_descriptor(A, [M, K], [K, 1], [BM, BK])
        b = tl.make_tensor_descriptor(B, [N, K], [K, 1], [BN, BK])
        for start in range(0, K, BK):
            sums = tl.dot(a.load([row, start]), b.load([column, start]).T, sums)
    else:
        left = A + (rows % M)[:, None] * K + inner[None, :]
        right = B + (columns % N)[None, :] * K + inner[:, None]
        for start in range(0, K, BK):
            x = tl.load(left + start, mask=inner[None, :] < K - start, other=0.0)
            y = tl.load(right + start, mask=inner[:, None] < K - start, other=0.0)
            sums = tl.dot(x, y, sums)
    at = C + rows[:, None] * N + columns[None, :]
    tl.store(at, sums.to(tl.bfloat16), mask=(rows[:, None] < M) & (columns[None, :] < N))
