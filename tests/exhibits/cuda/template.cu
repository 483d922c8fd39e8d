/* kforecast 1
task = "vector_add"
[[launch]]
entry = "add<BLOCK, EACH, float>"
args = ["a", "b", "c", "N"]
grid = ["cdiv(N, BLOCK * EACH)"]
block = ["BLOCK"]
[tune]
BLOCK = [256, 128]
EACH = [4, 1]
*/
/* expect: ok: a template, instantiated from the tunables. */
template <int SIZE, int COUNT, typename Number>
__global__ void __launch_bounds__(SIZE) add(const Number* a, const Number* b, Number* c, int N) {
#pragma unroll
  for (int k = 0; k < COUNT; ++k) {
    const int i = (blockIdx.x * COUNT + k) * SIZE + threadIdx.x;
    if (i < N) c[i] = a[i] + b[i];
  }
}
