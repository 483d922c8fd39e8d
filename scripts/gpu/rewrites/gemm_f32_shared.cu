/* kforecast 1
task = "gemm_f32"
[[launch]]
entry = "gemm_f32"
args = ["A", "B", "C", "M", "N", "K"]
grid = ["cdiv(N, SIDE)", "cdiv(M, SIDE)"]
block = ["SIDE", "SIDE"]
[tune]
SIDE = [16, 8, 32]
*/
// Tiles of A and B in shared memory, one element of C a thread.
extern "C" __global__ void gemm_f32(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float a[SIDE][SIDE];
  __shared__ float b[SIDE][SIDE];
  const int n = blockIdx.x * SIDE + threadIdx.x;
  const int m = blockIdx.y * SIDE + threadIdx.y;
  float sum = 0.0f;
  for (int k0 = 0; k0 < K; k0 += SIDE) {
    const int ka = k0 + threadIdx.x;
    const int kb = k0 + threadIdx.y;
    a[threadIdx.y][threadIdx.x] = m < M && ka < K ? A[(long long)m * K + ka] : 0.0f;
    b[threadIdx.y][threadIdx.x] = kb < K && n < N ? B[(long long)kb * N + n] : 0.0f;
    __syncthreads();
    for (int k = 0; k < SIDE; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
    __syncthreads();
  }
  if (m < M && n < N) C[(long long)m * N + n] = sum;
}
