/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
/* expect: compile_error: the error is on line 13, where `sum` has no declaration. */
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    sum = a[i] + b[i];
    c[i] = sum;
  }
}
