/* kforecast 1
task = "sum_all"
[scratch]
partial = { dtype = "f32", shape = ["cdiv(N, 4096)"] }
[[launch]]
entry = "sum_parts"
args = ["x", "partial", "N"]
grid = ["cdiv(N, 4096)"]
block = [256]
[[launch]]
entry = "sum_partials"
args = ["partial", "y", "cdiv(N, 4096)"]
grid = [1]
block = [256]
*/
__device__ float sum_over_block(float value) {
  __shared__ float part[256];
  const int t = threadIdx.x;
  part[t] = value;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  return part[0];
}

// Each block sums 4096 elements.
extern "C" __global__ void sum_parts(const float* x, float* partial, int N) {
  float sum = 0.0f;
  for (int k = 0; k < 16; ++k) {
    const long long i = blockIdx.x * 4096LL + k * 256 + threadIdx.x;
    if (i < N) sum += x[i];
  }
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block sums what the others left.
extern "C" __global__ void sum_partials(const float* partial, float* y, int parts) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < parts; i += 256) sum += partial[i];
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) y[0] = sum;
}
