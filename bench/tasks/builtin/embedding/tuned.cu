/* kforecast 1
task = "embedding"
[[launch]]
entry = "embedding"
args = ["table", "idx", "y", "V", "D", "T"]
grid = ["cdiv(T * D, 4 * BLOCK * VECS)"]
block = ["BLOCK"]
[tune]
BLOCK = [256, 128, 512]
VECS = [4, 2, 8]  # 16-byte vectors a thread
*/
// Flat over the output. Rows of the table may be wanted again and keep the caches' default; the output streams past
// them.
extern "C" __global__ void __launch_bounds__(BLOCK)
embedding(const float* __restrict__ table, const int* __restrict__ idx, float* __restrict__ y, int V, int D, int T) {
  if (D % 4 == 0) {
    const unsigned row = D / 4;
    const unsigned vectors = (unsigned)T * row;
    const unsigned start = blockIdx.x * (BLOCK * VECS) + threadIdx.x;
    int from[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const unsigned at = start + i * BLOCK;
      from[i] = at < vectors ? __ldg(idx + at / row) : 0;
    }
    float4 v[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const unsigned at = start + i * BLOCK;
      if (at < vectors) v[i] = __ldg((const float4*)table + (long long)from[i] * row + at % row);
    }
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const unsigned at = start + i * BLOCK;
      if (at < vectors) __stcs((float4*)y + at, v[i]);
    }
  } else {
    const unsigned elements = (unsigned)T * D;
    const unsigned start = blockIdx.x * (4 * BLOCK * VECS) + threadIdx.x;
#pragma unroll 4
    for (int i = 0; i < 4 * VECS; ++i) {
      const unsigned at = start + i * BLOCK;
      if (at < elements) __stcs(y + at, __ldg(table + (long long)__ldg(idx + at / D) * D + at % D));
    }
  }
}
