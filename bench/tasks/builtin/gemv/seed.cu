/* kforecast 1
task = "gemv"
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
grid = ["M"]
block = [256]
*/
// One block per row.
extern "C" __global__ void gemv(const float* A, const float* x, float* y, int M, int K) {
  __shared__ float part[256];
  const long long row = (long long)blockIdx.x * K;
  const int t = threadIdx.x;
  float sum = 0.0f;
  for (int k = t; k < K; k += 256) sum += A[row + k] * x[k];
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}
