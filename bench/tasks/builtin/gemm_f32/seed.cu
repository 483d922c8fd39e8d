/* kforecast 1
task = "gemm_f32"
[[launch]]
entry = "gemm_f32"
args = ["A", "B", "C", "M", "N", "K"]
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
*/
// One thread per element of C.
extern "C" __global__ void gemm_f32(const float* A, const float* B, float* C, int M, int N, int K) {
  const int n = blockIdx.x * 16 + threadIdx.x;
  const int m = blockIdx.y * 16 + threadIdx.y;
  if (m >= M || n >= N) return;
  float sum = 0.0f;
  for (int k = 0; k < K; ++k) sum += A[(long long)m * K + k] * B[(long long)k * N + n];
  C[(long long)m * N + n] = sum;
}
