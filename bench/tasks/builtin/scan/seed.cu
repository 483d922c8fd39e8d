/* kforecast 1
task = "scan"
[scratch]
total = { dtype = "f32", shape = ["cdiv(N, 1024)"] }
[[launch]]
entry = "scan_blocks"
args = ["x", "y", "total", "N"]
grid = ["cdiv(N, 1024)"]
block = [1024]
[[launch]]
entry = "scan_totals"
args = ["total", "cdiv(N, 1024)"]
grid = [1]
block = [1024]
[[launch]]
entry = "add_totals"
args = ["total", "y", "N"]
grid = ["cdiv(N, 1024)"]
block = [1024]
*/
// Inclusive prefix sums over a block of 1024 threads, one value each.
__device__ float scan_over_block(float value) {
  __shared__ float part[1024];
  const int t = threadIdx.x;
  part[t] = value;
  __syncthreads();
  for (int s = 1; s < 1024; s *= 2) {
    const float left = t >= s ? part[t - s] : 0.0f;
    __syncthreads();
    part[t] += left;
    __syncthreads();
  }
  return part[t];
}

extern "C" __global__ void scan_blocks(const float* x, float* y, float* total, int N) {
  const long long i = blockIdx.x * 1024LL + threadIdx.x;
  const float sum = scan_over_block(i < N ? x[i] : 0.0f);
  if (i < N) y[i] = sum;
  if (threadIdx.x == 1023) total[blockIdx.x] = sum;
}

// One block turns the blocks' totals into their prefix sums, 1024 at a time.
extern "C" __global__ void scan_totals(float* total, int parts) {
  __shared__ float carry;
  if (threadIdx.x == 0) carry = 0.0f;
  for (int first = 0; first < parts; first += 1024) {
    const int i = first + threadIdx.x;
    float sum = scan_over_block(i < parts ? total[i] : 0.0f);
    sum += carry;
    if (i < parts) total[i] = sum;
    __syncthreads();
    if (threadIdx.x == 1023) carry = sum;
  }
}

extern "C" __global__ void add_totals(const float* total, float* y, int N) {
  const long long i = blockIdx.x * 1024LL + threadIdx.x;
  if (blockIdx.x > 0 && i < N) y[i] += total[blockIdx.x - 1];
}
