/* kforecast 1
task = "gemm_bf16"
[[launch]]
entry = "gemm_bf16"
args = ["A", "B", "C", "M", "N", "K"]
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
*/
#include <cuda_bf16.h>

// 16 x 16 elements of C a block, one a thread; tiles of A and B pass through shared memory.
extern "C" __global__ void gemm_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N,
                                     int K) {
  __shared__ float a[16][17];
  __shared__ float b[16][17];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int m = blockIdx.y * 16 + ty;
  const int n = blockIdx.x * 16 + tx;
  const int b_row = blockIdx.x * 16 + ty;
  float sum = 0.0f;
  for (int k0 = 0; k0 < K; k0 += 16) {
    const bool inside = k0 + tx < K;
    a[ty][tx] = inside && m < M ? __bfloat162float(A[(long long)m * K + k0 + tx]) : 0.0f;
    b[ty][tx] = inside && b_row < N ? __bfloat162float(B[(long long)b_row * K + k0 + tx]) : 0.0f;
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += a[ty][k] * b[tx][k];
    __syncthreads();
  }
  if (m < M && n < N) C[(long long)m * N + n] = __float2bfloat16(sum);
}
