/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
grid = ["R"]
block = [256]
smem = "4 * min(C, 5120)"
*/
/* expect: ok: 40 KiB of static and 20 KiB of dynamic shared memory: neither is more than a launch gets unasked, both are. */
static __device__ float& at(float* row, float* rest, int c) { return c < 5120 ? row[c] : rest[c - 5120]; }

extern "C" __global__ void softmax_rows(const float* x, float* y, int R, int C) {
  extern __shared__ float row[];
  __shared__ float rest[10240];
  __shared__ float part[256];
  const long long first = (long long)blockIdx.x * C;
  const int t = threadIdx.x;
  float m = __int_as_float(0xff800000);
  for (int c = t; c < C; c += 256) {
    at(row, rest, c) = x[first + c];
    m = fmaxf(m, at(row, rest, c));
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
    at(row, rest, c) = expf(at(row, rest, c) - m);
    sum += at(row, rest, c);
  }
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = part[t] + part[t + s];
    __syncthreads();
  }
  for (int c = t; c < C; c += 256) y[first + c] = at(row, rest, c) / part[0];
}
