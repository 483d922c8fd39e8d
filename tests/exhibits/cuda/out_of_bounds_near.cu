/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
/* expect: incorrect|crashed: right answer, and one element written just past the end of c. */
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) c[i] = a[i] + b[i];
  if (i == 0) ((volatile float*)c)[N] = 1.0f;
}
