/* kforecast 1
task = "gemm_f32"
[[launch]]
entry = "gemm_f32"
args = ["A", "B", "C", "M", "N", "K"]
grid = ["cdiv(N, 16 * EACH)", "cdiv(M, 16 * EACH)"]
block = [16, 16]
[tune]
EACH = [4, 2, 8]
DEEP = [16, 8, 32]
*/
// Tiles of A and B in shared memory, EACH x EACH elements of C a thread in registers, 16 apart.
extern "C" __global__ void gemm_f32(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float a[DEEP][16 * EACH + 1];
  __shared__ float b[DEEP][16 * EACH];
  const int t = threadIdx.y * 16 + threadIdx.x;
  const int m0 = blockIdx.y * 16 * EACH;
  const int n0 = blockIdx.x * 16 * EACH;
  float sum[EACH][EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
#pragma unroll
    for (int j = 0; j < EACH; ++j) sum[i][j] = 0.0f;
  }
  for (int k0 = 0; k0 < K; k0 += DEEP) {
    for (int i = t; i < DEEP * 16 * EACH; i += 256) {
      const int k = i % DEEP;
      const int m = i / DEEP;
      a[k][m] = m0 + m < M && k0 + k < K ? A[(long long)(m0 + m) * K + k0 + k] : 0.0f;
    }
    for (int i = t; i < DEEP * 16 * EACH; i += 256) {
      const int k = i / (16 * EACH);
      const int n = i % (16 * EACH);
      b[k][n] = n0 + n < N && k0 + k < K ? B[(long long)(k0 + k) * N + n0 + n] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DEEP; ++k) {
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) sum[i][j] += a[k][threadIdx.y + 16 * i] * b[k][threadIdx.x + 16 * j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
      const int m = m0 + threadIdx.y + 16 * i;
      const int n = n0 + threadIdx.x + 16 * j;
      if (m < M && n < N) C[(long long)m * N + n] = sum[i][j];
    }
  }
}
