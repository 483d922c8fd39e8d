/* kforecast 1
task = "layernorm"
[[launch]]
entry = "layernorm"
args = ["x", "gamma", "beta", "y", "R", "C"]
grid = ["R"]
block = [256]
*/
// One block per row, read three times: the mean, the variance about it, the result.
extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y, int R, int C) {
  __shared__ float part[256];
  const long long row = (long long)blockIdx.x * C;
  const int t = threadIdx.x;

  float sum = 0.0f;
  for (int c = t; c < C; c += 256) sum += x[row + c];
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  const float mean = part[0] / C;
  __syncthreads();

  float squares = 0.0f;
  for (int c = t; c < C; c += 256) squares += (x[row + c] - mean) * (x[row + c] - mean);
  part[t] = squares;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  const float scale = 1.0f / sqrtf(part[0] / C + 1e-5f);

  for (int c = t; c < C; c += 256) y[row + c] = (x[row + c] - mean) * scale * gamma[c] + beta[c];
}
