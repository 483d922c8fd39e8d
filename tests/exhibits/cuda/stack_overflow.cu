/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
/* expect: crashed: recursion without end, every call with half a kilobyte on the stack. */
__device__ __noinline__ float deeper(volatile float* above, int depth) {
  volatile float here[128];
  for (int j = 0; j < 128; ++j) here[j] = above[j] + depth;
  return here[depth % 128] + deeper(here, depth + 1) + here[(depth + 1) % 128];
}

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  volatile float top[128];
  for (int j = 0; j < 128; ++j) top[j] = i < N ? a[i] : 0.0f;
  const float sum = deeper(top, 1);
  if (i < N) c[i] = sum + b[i];
}
