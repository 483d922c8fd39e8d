/* kforecast 1
task = "gemm_f32"
[[launch]]
entry = "gemm_f32"
args = ["A", "B", "C", "M", "N", "K"]
grid = ["cdiv(N, 16)", "cdiv(M, 16)"]
block = [16, 16]
*/
/* expect: incorrect: the operands are rounded to TF32's 10 bits, as the tensor cores would. */
__device__ float tf32(float value) {
  const int bits = __float_as_int(value);
  return __int_as_float((bits + 0x1000) & ~0x1fff);
}

extern "C" __global__ void gemm_f32(const float* A, const float* B, float* C, int M, int N, int K) {
  const int n = blockIdx.x * 16 + threadIdx.x;
  const int m = blockIdx.y * 16 + threadIdx.y;
  if (m >= M || n >= N) return;
  float sum = 0.0f;
  for (int k = 0; k < K; ++k) sum += tf32(A[(long long)m * K + k]) * tf32(B[(long long)k * N + n]);
  C[(long long)m * N + n] = sum;
}
