/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
grid = ["R"]
block = [256]
*/
/* expect: incorrect: without the maximum subtracted, large elements overflow to inf / inf. */
extern "C" __global__ void softmax_rows(const float* x, float* y, int R, int C) {
  __shared__ float part[256];
  const long long row = (long long)blockIdx.x * C;
  const int t = threadIdx.x;
  float sum = 0.0f;
  for (int c = t; c < C; c += 256) sum += expf(x[row + c]);
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = part[t] + part[t + s];
    __syncthreads();
  }
  for (int c = t; c < C; c += 256) y[row + c] = expf(x[row + c]) / part[0];
}
