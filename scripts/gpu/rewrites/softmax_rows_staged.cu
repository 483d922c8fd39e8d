/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
grid = ["R"]
block = ["BLOCK"]
smem = "4 * C"
[tune]
BLOCK = [256, 64, 128, 512, 1024]
*/
// A block per row, which is kept in shared memory and read once.
__device__ __forceinline__ float over_block(float value, bool largest) {
  __shared__ float part[32];
  for (int s = 16; s > 0; s /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, s);
    value = largest ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = part[0];
  for (int w = 1; w < BLOCK / 32; ++w) value = largest ? fmaxf(value, part[w]) : value + part[w];
  return value;
}

extern "C" __global__ void softmax_rows(const float* x, float* y, int R, int C) {
  extern __shared__ float row[];
  const float* in = x + (long long)blockIdx.x * C;
  float* out = y + (long long)blockIdx.x * C;
  float m = __int_as_float(0xff800000);
  for (int c = threadIdx.x; c < C; c += BLOCK) {
    row[c] = in[c];
    m = fmaxf(m, row[c]);
  }
  m = over_block(m, true);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += BLOCK) {
    row[c] = expf(row[c] - m);
    sum += row[c];
  }
  const float scale = 1.0f / over_block(sum, false);
  for (int c = threadIdx.x; c < C; c += BLOCK) out[c] = row[c] * scale;
}
