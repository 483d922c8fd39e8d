/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
grid = ["max(1, N // 256)"]
block = [256]
*/
/* expect: incorrect: N / 256 blocks, rounded down: the last N % 256 elements are never written. */
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) c[i] = a[i] + b[i];
}
