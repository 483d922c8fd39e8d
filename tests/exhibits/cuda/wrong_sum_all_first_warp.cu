/* kforecast 1
task = "sum_all"
[[launch]]
entry = "sum_all"
args = ["x", "y", "N"]
grid = [1]
block = [1024]
*/
/* expect: incorrect: sums within warps and forgets to add the warps: only the first one's share is reported. */
extern "C" __global__ void sum_all(const float* x, float* y, int N) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < N; i += 1024) sum += x[i];
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  if (threadIdx.x == 0) y[0] = sum;
}
