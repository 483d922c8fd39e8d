/* kforecast 1
task = "cross_entropy"
[[launch]]
entry = "cross_entropy"
args = ["logits", "labels", "loss", "R", "C"]
grid = ["R"]
block = [256]
*/
/* expect: incorrect: the maximum is subtracted before the exponentials and never added back. */
extern "C" __global__ void cross_entropy(const float* logits, const int* labels, float* loss, int R, int C) {
  __shared__ float part[256];
  const float* row = logits + (long long)blockIdx.x * C;
  const int t = threadIdx.x;
  float m = __int_as_float(0xff800000);
  for (int c = t; c < C; c += 256) m = fmaxf(m, row[c]);
  part[t] = m;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = fmaxf(part[t], part[t + s]);
    __syncthreads();
  }
  m = part[0];
  __syncthreads();
  float sum = 0.0f;
  for (int c = t; c < C; c += 256) sum += expf(row[c] - m);
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = part[t] + part[t + s];
    __syncthreads();
  }
  if (t == 0) loss[blockIdx.x] = logf(part[0]) - row[labels[blockIdx.x]];
}
