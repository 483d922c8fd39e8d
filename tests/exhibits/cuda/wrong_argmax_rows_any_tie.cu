/* kforecast 1
task = "argmax_rows"
[[launch]]
entry = "argmax_rows"
args = ["x", "idx", "R", "C"]
grid = ["R"]
block = [256]
*/
/* expect: incorrect: between threads a tie goes to the lower thread, whose index need not be the lower one. */
extern "C" __global__ void argmax_rows(const float* x, int* idx, int R, int C) {
  __shared__ float value[256];
  __shared__ int index[256];
  const long long row = (long long)blockIdx.x * C;
  const int t = threadIdx.x;
  value[t] = __int_as_float(0xff800000);
  index[t] = t;
  for (int c = t; c < C; c += 256) {
    if (x[row + c] > value[t]) {
      value[t] = x[row + c];
      index[t] = c;
    }
  }
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s && value[t + s] > value[t]) {
      value[t] = value[t + s];
      index[t] = index[t + s];
    }
    __syncthreads();
  }
  if (t == 0) idx[blockIdx.x] = index[0];
}
