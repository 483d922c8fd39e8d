/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
/* expect: crashed: a 4-byte store 2 bytes after a 4-byte boundary. */
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) c[i] = a[i] + b[i];
  if (i == 0) *(volatile int*)((char*)c + 2) = 0;
}
