/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "arrived", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
[scratch]
arrived = { dtype = "i32", shape = ["1"], zero = true }
*/
/* expect: timeout: a barrier over the grid that waits for one block more than there are. */
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int* arrived, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    while (*(volatile int*)arrived < (int)gridDim.x + 1) {
    }
  }
  __syncthreads();
  if (i < N) c[i] = a[i] + b[i];
}
