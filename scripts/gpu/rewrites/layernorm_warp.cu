/* kforecast 1
task = "layernorm"
[[launch]]
entry = "layernorm"
args = ["x", "gamma", "beta", "y", "R", "C"]
grid = ["cdiv(R, ROWS)"]
block = [32, "ROWS"]
[tune]
ROWS = [4, 1, 2, 8, 16]
*/
// A warp per row, read three times.
extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y, int R, int C) {
  const int r = blockIdx.x * ROWS + threadIdx.y;
  if (r >= R) return;
  const float* in = x + (long long)r * C;
  float* out = y + (long long)r * C;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 32) sum += in[c];
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  const float mean = sum / C;
  float squares = 0.0f;
  for (int c = threadIdx.x; c < C; c += 32) squares += (in[c] - mean) * (in[c] - mean);
  for (int s = 16; s > 0; s /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, s);
  const float scale = rsqrtf(squares / C + 1e-5f);
  for (int c = threadIdx.x; c < C; c += 32) out[c] = (in[c] - mean) * scale * gamma[c] + beta[c];
}
