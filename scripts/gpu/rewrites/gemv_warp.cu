/* kforecast 1
task = "gemv"
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
grid = ["cdiv(M, ROWS)"]
block = [32, "ROWS"]
[tune]
ROWS = [8, 1, 2, 4, 16]
*/
// A warp per row.
extern "C" __global__ void gemv(const float* A, const float* x, float* y, int M, int K) {
  const int m = blockIdx.x * ROWS + threadIdx.y;
  if (m >= M) return;
  const float* row = A + (long long)m * K;
  float sum = 0.0f;
  for (int k = threadIdx.x; k < K; k += 32) sum += row[k] * x[k];
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  if (threadIdx.x == 0) y[m] = sum;
}
