/* kforecast 1
task = "gemv"
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
grid = ["cdiv(M, WARPS)"]
block = ["32 * WARPS"]
[tune]
WARPS = [8, 4, 16, 32]
*/
// A warp per row; the warps of a block share parts of x in shared memory.
extern "C" __global__ void gemv(const float* A, const float* x, float* y, int M, int K) {
  __shared__ float part[1024];
  const int lane = threadIdx.x % 32;
  const int m = blockIdx.x * WARPS + threadIdx.x / 32;
  const float* row = A + (long long)min(m, M - 1) * K;
  float sum = 0.0f;
  for (int k0 = 0; k0 < K; k0 += 1024) {
    __syncthreads();
    for (int k = threadIdx.x; k < 1024; k += 32 * WARPS) part[k] = k0 + k < K ? x[k0 + k] : 0.0f;
    __syncthreads();
    const int most = min(1024, K - k0);
    for (int k = lane; k < most; k += 32) sum += row[k0 + k] * part[k];
  }
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  if (lane == 0 && m < M) y[m] = sum;
}
