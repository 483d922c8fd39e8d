/* kforecast 1
task = "layernorm"
[[launch]]
entry = "layernorm"
args = ["x", "gamma", "beta", "y", "R", "C"]
grid = ["R"]
block = ["BLOCK"]
smem = "4 * C"
[tune]
BLOCK = [256, 64, 128, 512, 1024]
*/
// A block per row, which is kept in shared memory and read once.
__device__ __forceinline__ float sum_over_block(float value) {
  __shared__ float part[32];
  for (int s = 16; s > 0; s /= 2) value += __shfl_xor_sync(0xffffffffu, value, s);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = part[0];
  for (int w = 1; w < BLOCK / 32; ++w) value += part[w];
  return value;
}

extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y, int R, int C) {
  extern __shared__ float row[];
  const float* in = x + (long long)blockIdx.x * C;
  float* out = y + (long long)blockIdx.x * C;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += BLOCK) {
    row[c] = in[c];
    sum += row[c];
  }
  const float mean = sum_over_block(sum) / C;
  float squares = 0.0f;
  for (int c = threadIdx.x; c < C; c += BLOCK) squares += (row[c] - mean) * (row[c] - mean);
  const float scale = rsqrtf(sum_over_block(squares) / C + 1e-5f);
  for (int c = threadIdx.x; c < C; c += BLOCK) out[c] = (row[c] - mean) * scale * gamma[c] + beta[c];
}
