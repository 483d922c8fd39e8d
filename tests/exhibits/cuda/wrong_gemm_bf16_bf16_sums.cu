/* kforecast 1
task = "gemm_bf16"
[[launch]]
entry = "gemm_bf16"
args = ["A", "B", "C", "M", "N", "K"]
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
*/
/* expect: incorrect: the running sum is rounded to bf16 after every product. */
#include <cuda_bf16.h>

extern "C" __global__ void gemm_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N,
                                     int K) {
  const int n = blockIdx.x * 16 + threadIdx.x;
  const int m = blockIdx.y * 16 + threadIdx.y;
  if (m >= M || n >= N) return;
  __nv_bfloat16 sum = __float2bfloat16(0.0f);
  for (int k = 0; k < K; ++k) {
    const float product = __bfloat162float(A[(long long)m * K + k]) * __bfloat162float(B[(long long)n * K + k]);
    sum = __float2bfloat16(__bfloat162float(sum) + product);
  }
  C[(long long)m * N + n] = sum;
}
