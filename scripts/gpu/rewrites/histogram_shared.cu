/* kforecast 1
task = "histogram"
[[launch]]
entry = "histogram"
args = ["x", "h", "N", "BINS"]
grid = ["min(SM_COUNT * BLOCKS, cdiv(N, BLOCK))"]
block = ["BLOCK"]
smem = "4 * BINS"
[tune]
BLOCK = [256, 128, 512, 1024]
BLOCKS = [4, 1, 2, 8]
*/
// Each block counts in shared memory and adds its counts to the others' at the end.
extern "C" __global__ void histogram(const int* x, int* h, int N, int BINS) {
  extern __shared__ int counts[];
  for (int b = threadIdx.x; b < BINS; b += BLOCK) counts[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * BLOCK + threadIdx.x; i < N; i += gridDim.x * BLOCK) {
    const int value = x[i];
    if (value >= 0 && value < BINS) atomicAdd(&counts[value], 1);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < BINS; b += BLOCK) {
    if (counts[b] > 0) atomicAdd(&h[b], counts[b]);
  }
}
