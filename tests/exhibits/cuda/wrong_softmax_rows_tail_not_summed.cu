/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
grid = ["R"]
block = [256]
*/
/* expect: incorrect: the sum goes by fours and leaves out the last C % 4 elements, which are still written. */
extern "C" __global__ void softmax_rows(const float* x, float* y, int R, int C) {
  __shared__ float part[256];
  const long long row = (long long)blockIdx.x * C;
  const int t = threadIdx.x;
  float m = __int_as_float(0xff800000);
  for (int c = t; c < C; c += 256) m = fmaxf(m, x[row + c]);
  part[t] = m;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = fmaxf(part[t], part[t + s]);
    __syncthreads();
  }
  m = part[0];
  __syncthreads();
  float sum = 0.0f;
  for (int c = t; c < C / 4; c += 256) {
    for (int j = 0; j < 4; ++j) sum += expf(x[row + 4 * c + j] - m);
  }
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = part[t] + part[t + s];
    __syncthreads();
  }
  for (int c = t; c < C; c += 256) y[row + c] = expf(x[row + c] - m) / part[0];
}
