/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
/* expect: launch_error|ok: 480 kB of stack a thread; the device reserves that for every thread it could run at once. */
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N) return;
  volatile float hog[120000];
  hog[i % 120000] = a[i];
  c[i] = hog[i % 120000] + b[i];
}
