/* kforecast 1
task = "softmax_rows"
[scratch]
top = { dtype = "f32", shape = ["R"] }
total = { dtype = "f32", shape = ["R"] }
[[launch]]
entry = "row_tops"
args = ["x", "top", "R", "C"]
grid = ["cdiv(R, 8)"]
block = [32, 8]
[[launch]]
entry = "row_totals"
args = ["x", "top", "total", "R", "C"]
grid = ["cdiv(R, 8)"]
block = [32, 8]
[[launch]]
entry = "quotients"
args = ["x", "top", "total", "y", "R", "C"]
grid = ["cdiv(R * C, 256)"]
block = [256]
*/
/* expect: ok: three launches that hand their results on through scratch memory; a warp a row. */
extern "C" __global__ void row_tops(const float* x, float* top, int R, int C) {
  const int r = blockIdx.x * 8 + threadIdx.y;
  float m = __int_as_float(0xff800000);
  for (int c = threadIdx.x; r < R && c < C; c += 32) m = fmaxf(m, x[(long long)r * C + c]);
  for (int s = 16; s > 0; s /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, s));
  if (r < R && threadIdx.x == 0) top[r] = m;
}

extern "C" __global__ void row_totals(const float* x, const float* top, float* total, int R, int C) {
  const int r = blockIdx.x * 8 + threadIdx.y;
  float sum = 0.0f;
  for (int c = threadIdx.x; r < R && c < C; c += 32) sum += expf(x[(long long)r * C + c] - top[r]);
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
  if (r < R && threadIdx.x == 0) total[r] = sum;
}

extern "C" __global__ void quotients(const float* x, const float* top, const float* total, float* y, int R, int C) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < R * C) y[i] = expf(x[i] - top[i / C]) / total[i / C];
}
