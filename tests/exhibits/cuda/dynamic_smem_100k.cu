/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
grid = ["R"]
block = [256]
smem = "4 * max(C, 25600)"
*/
/* expect: ok: 100 KiB of dynamic shared memory, more than a launch gets unasked; it holds the row. */
extern "C" __global__ void softmax_rows(const float* x, float* y, int R, int C) {
  extern __shared__ float row[];
  __shared__ float part[256];
  const long long first = (long long)blockIdx.x * C;
  const int t = threadIdx.x;
  float m = __int_as_float(0xff800000);
  for (int c = t; c < C; c += 256) {
    row[c] = x[first + c];
    m = fmaxf(m, row[c]);
  }
  part[t] = m;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = fmaxf(part[t], part[t + s]);
    __syncthreads();
  }
  m = part[0];
  __syncthreads();
  float sum = 0.0f;
  for (int c = t; c < C; c += 256) {
    row[c] = expf(row[c] - m);
    sum += row[c];
  }
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = part[t] + part[t + s];
    __syncthreads();
  }
  for (int c = t; c < C; c += 256) y[first + c] = row[c] / part[0];
}
