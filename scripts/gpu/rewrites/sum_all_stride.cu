/* kforecast 1
task = "sum_all"
[scratch]
partial = { dtype = "f32", shape = ["BLOCKS"] }
[[launch]]
entry = "sum_parts"
args = ["x", "partial", "N"]
grid = ["BLOCKS"]
block = ["BLOCK"]
[[launch]]
entry = "sum_partials"
args = ["partial", "y"]
grid = [1]
block = ["BLOCK"]
[tune]
BLOCK = [256, 128, 512, 1024]
BLOCKS = [1024, 128, 256, 512, 2048, 4096]
*/
// Blocks stride over the input one element at a time; a second launch adds what they leave.
__device__ __forceinline__ float sum_over_block(float value) {
  __shared__ float part[32];
  for (int s = 16; s > 0; s /= 2) value += __shfl_xor_sync(0xffffffffu, value, s);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0.0f;
  for (int w = 0; w < BLOCK / 32; ++w) value += part[w];
  return value;
}

extern "C" __global__ void sum_parts(const float* x, float* partial, int N) {
  float sum = 0.0f;
  for (long long i = (long long)blockIdx.x * BLOCK + threadIdx.x; i < N; i += (long long)BLOCKS * BLOCK) sum += x[i];
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

extern "C" __global__ void sum_partials(const float* partial, float* y) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < BLOCKS; i += BLOCK) sum += partial[i];
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) y[0] = sum;
}
