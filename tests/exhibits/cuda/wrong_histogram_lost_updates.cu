/* kforecast 1
task = "histogram"
[[launch]]
entry = "histogram"
args = ["x", "h", "N", "BINS"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
/* expect: incorrect: counts without atomics, so that simultaneous increments are lost. */
extern "C" __global__ void histogram(const int* x, int* h, int N, int BINS) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int old = i < N ? h[x[i]] : 0;
  __syncthreads();
  if (i < N) h[x[i]] = old + 1;
}
