/* kforecast 1
task = "conv1d"
[[launch]]
entry = "conv1d"
args = ["x", "w", "y", "G", "C", "L", "T"]
grid = ["cdiv(G * C * L, 4 * BLOCK * VECS)"]
block = ["BLOCK"]
[tune]
BLOCK = [256, 128, 512]
VECS = [2, 1, 4]  # groups of 4 outputs a thread
*/
// Flat over the outputs. Where L allows, a thread makes 4 neighbouring outputs: two 16-byte loads hold the 8 elements
// that 4 taps need, and each further 4 taps take one load more, to the left. The overlap comes from the L1 cache.
extern "C" __global__ void __launch_bounds__(BLOCK)
conv1d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int G, int C, int L, int T) {
  const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (L % 4 == 0) {
    const unsigned row = L / 4;
    const unsigned vectors = (unsigned)G * C * row;
    const unsigned start = blockIdx.x * (BLOCK * VECS) + threadIdx.x;
    const float4* in = (const float4*)x;
    float4 first[VECS];
    float4 second[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const unsigned at = start + i * BLOCK;
      first[i] = at < vectors ? __ldg(in + at) : zero;
      second[i] = at < vectors && at % row > 0 ? __ldg(in + at - 1) : zero;
    }
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const unsigned at = start + i * BLOCK;
      if (at >= vectors) break;
      const unsigned column = at % row;
      const float* tap = w + (long long)(at / row % C) * T + T - 1;  // back from the newest
      float4 right = first[i];
      float4 left = second[i];
      float4 sum = zero;
      for (int back = 0; back < T; back += 4) {
        if (back > 0) {
          const unsigned steps = back / 4 + 1;
          right = left;
          left = column >= steps ? __ldg(in + at - steps) : zero;
        }
        const float e[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if (back + k < T) {
            const float weight = __ldg(tap - back - k);
            sum.x += weight * e[4 - k];
            sum.y += weight * e[5 - k];
            sum.z += weight * e[6 - k];
            sum.w += weight * e[7 - k];
          }
        }
      }
      __stcs((float4*)y + at, sum);
    }
  } else {
    const unsigned outputs = (unsigned)G * C * L;
    const unsigned start = blockIdx.x * (4 * BLOCK * VECS) + threadIdx.x;
    for (int i = 0; i < 4 * VECS; ++i) {
      const unsigned at = start + i * BLOCK;
      if (at >= outputs) break;
      const int l = at % L;
      const float* tap = w + (long long)(at / L % C) * T + T - 1;
      float sum = 0.0f;
      for (int back = 0; back < T && back <= l; ++back) sum += __ldg(tap - back) * __ldg(x + at - back);
      y[at] = sum;
    }
  }
}
