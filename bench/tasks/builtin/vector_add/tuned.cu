/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
grid = ["cdiv(N, 4 * BLOCK * VECS)"]
block = ["BLOCK"]
[tune]
BLOCK = [256, 128, 512, 1024]
VECS = [2, 1, 4]
*/
// VECS 16-byte vectors a thread, all loads issued before the first addition; nothing is read twice, so nothing is kept.
extern "C" __global__ void __launch_bounds__(BLOCK)
vector_add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int N) {
  const float4* a4 = (const float4*)a;
  const float4* b4 = (const float4*)b;
  const unsigned vectors = N / 4;
  const unsigned first = blockIdx.x * (BLOCK * VECS) + threadIdx.x;
  float4 p[VECS];
  float4 q[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const unsigned at = first + i * BLOCK;
    if (at < vectors) {
      p[i] = __ldcs(a4 + at);
      q[i] = __ldcs(b4 + at);
    }
  }
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const unsigned at = first + i * BLOCK;
    if (at < vectors) {
      __stcs((float4*)c + at, make_float4(p[i].x + q[i].x, p[i].y + q[i].y, p[i].z + q[i].z, p[i].w + q[i].w));
    }
  }
  const unsigned tail = 4 * vectors + threadIdx.x;
  if (blockIdx.x == 0 && tail < (unsigned)N) c[tail] = a[tail] + b[tail];
}
