/* kforecast 1
task = "histogram"
[[launch]]
entry = "histogram"
args = ["x", "h", "N", "BINS"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
// One atomic a thread, straight to device memory.
extern "C" __global__ void histogram(const int* x, int* h, int N, int BINS) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N && x[i] >= 0 && x[i] < BINS) atomicAdd(&h[x[i]], 1);
}
