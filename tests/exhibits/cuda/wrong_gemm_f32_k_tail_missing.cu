/* kforecast 1
task = "gemm_f32"
[[launch]]
entry = "gemm_f32"
args = ["A", "B", "C", "M", "N", "K"]
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
*/
/* expect: incorrect: whole tiles of 16 only: the last K % 16 products are left out. */
extern "C" __global__ void gemm_f32(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float a[16][17];
  __shared__ float b[16][17];
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int m = blockIdx.y * 16 + ty;
  const int n = blockIdx.x * 16 + tx;
  float sum = 0.0f;
  for (int k0 = 0; k0 + 16 <= K; k0 += 16) {
    a[ty][tx] = m < M ? A[(long long)m * K + k0 + tx] : 0.0f;
    b[ty][tx] = n < N ? B[(long long)(k0 + ty) * N + n] : 0.0f;
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += a[ty][k] * b[k][tx];
    __syncthreads();
  }
  if (m < M && n < N) C[(long long)m * N + n] = sum;
}
