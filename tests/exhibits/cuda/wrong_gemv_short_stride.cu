/* kforecast 1
task = "gemv"
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
grid = ["cdiv(M, 8)"]
block = [32, 8]
*/
/* expect: incorrect: a warp a row, added over 16 lanes only: half of every sum is lost. */
extern "C" __global__ void gemv(const float* A, const float* x, float* y, int M, int K) {
  const int m = blockIdx.x * 8 + threadIdx.y;
  float sum = 0.0f;
  for (int k = threadIdx.x; m < M && k < K; k += 32) sum += A[(long long)m * K + k] * x[k];
  for (int s = 8; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  if (m < M && threadIdx.x == 0) y[m] = sum;
}
