/* kforecast 1
task = "argmax_rows"
[[launch]]
entry = "argmax_rows"
args = ["x", "idx", "R", "C"]
grid = ["R"]
block = [256]
*/
// One block per row; of equal values the lower index wins.
extern "C" __global__ void argmax_rows(const float* x, int* idx, int R, int C) {
  __shared__ float value[256];
  __shared__ int index[256];
  const long long row = (long long)blockIdx.x * C;
  const int t = threadIdx.x;

  float best = __int_as_float(0xff800000);  // -inf
  int at = t;
  for (int c = t; c < C; c += 256) {
    if (x[row + c] > best) {
      best = x[row + c];
      at = c;
    }
  }
  value[t] = best;
  index[t] = at;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s && (value[t + s] > value[t] || (value[t + s] == value[t] && index[t + s] < index[t]))) {
      value[t] = value[t + s];
      index[t] = index[t + s];
    }
    __syncthreads();
  }
  if (t == 0) idx[blockIdx.x] = index[0];
}
