/* kforecast 1
[task]
name = "vector_add_short"
in.a = { dtype = "f32", shape = ["N"] }
in.b = { dtype = "f32", shape = ["N"] }
out.c = { dtype = "f32", shape = ["N"] }
reference = "vector_add.py:reference"
precision = { multiply = "f32", accumulate = "f32" }
flops = "N"
checked = [{ N = 1 }, { N = 31 }, { N = 1000 }, { N = 65536 }]
timed = [{ N = 1024 }]
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
/* expect: ok: 1024 elements, about 2 microseconds, nearly all of them the launch. */
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) c[i] = a[i] + b[i];
}
