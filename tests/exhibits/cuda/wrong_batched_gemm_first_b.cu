/* kforecast 1
task = "batched_gemm"
[[launch]]
entry = "batched_gemm"
args = ["A", "B", "C", "G", "M", "N", "K"]
grid = ["cdiv(N, 16)", "cdiv(M, 16)", "G"]
block = [16, 16]
*/
/* expect: incorrect: every A[g] meets B[0]. */
extern "C" __global__ void batched_gemm(const float* A, const float* B, float* C, int G, int M, int N, int K) {
  const int n = blockIdx.x * 16 + threadIdx.x;
  const int m = blockIdx.y * 16 + threadIdx.y;
  const long long g = blockIdx.z;
  if (m >= M || n >= N) return;
  float sum = 0.0f;
  for (int k = 0; k < K; ++k) sum += A[(g * M + m) * K + k] * B[(long long)k * N + n];
  C[(g * M + m) * N + n] = sum;
}
