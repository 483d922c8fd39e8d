/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
grid = ["cdiv(R, ROWS)"]
block = [32, "ROWS"]
[tune]
ROWS = [4, 1, 2, 8, 16]
*/
// A warp per row, read three times.
extern "C" __global__ void softmax_rows(const float* x, float* y, int R, int C) {
  const int r = blockIdx.x * ROWS + threadIdx.y;
  if (r >= R) return;
  const float* in = x + (long long)r * C;
  float* out = y + (long long)r * C;
  float m = __int_as_float(0xff800000);
  for (int c = threadIdx.x; c < C; c += 32) m = fmaxf(m, in[c]);
  for (int s = 16; s > 0; s /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, s));
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 32) sum += expf(in[c] - m);
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  const float scale = 1.0f / sum;
  for (int c = threadIdx.x; c < C; c += 32) out[c] = expf(in[c] - m) * scale;
}
