/* kforecast 1
task = "layernorm"
[[launch]]
entry = "layernorm"
args = ["x", "gamma", "beta", "y", "R", "C"]
grid = ["R"]
block = [256]
*/
/* expect: incorrect: mean of squares minus square of mean cancels where the mean is large. */
__device__ float sum_over_block(float value) {
  __shared__ float part[256];
  const int t = threadIdx.x;
  __syncthreads();
  part[t] = value;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = part[t] + part[t + s];
    __syncthreads();
  }
  return part[0];
}

extern "C" __global__ void layernorm(const float* x, const float* gamma, const float* beta, float* y, int R, int C) {
  const long long row = (long long)blockIdx.x * C;
  float sum = 0.0f;
  float squares = 0.0f;
  for (int c = threadIdx.x; c < C; c += 256) {
    sum += x[row + c];
    squares += x[row + c] * x[row + c];
  }
  const float mean = sum_over_block(sum) / C;
  const float variance = fmaxf(sum_over_block(squares) / C - mean * mean, 0.0f);
  const float scale = rsqrtf(variance + 1e-5f);
  for (int c = threadIdx.x; c < C; c += 256) y[row + c] = (x[row + c] - mean) * scale * gamma[c] + beta[c];
}
