/* kforecast 1
task = "sum_all"
[scratch]
partial = { dtype = "f32", shape = ["SM_COUNT * BLOCKS"] }
[[launch]]
entry = "sum_parts"
args = ["x", "partial", "N"]
grid = ["SM_COUNT * BLOCKS"]
block = ["BLOCK"]
[[launch]]
entry = "sum_partials"
args = ["partial", "y", "SM_COUNT * BLOCKS"]
grid = [1]
block = ["BLOCK"]
[tune]
BLOCK = [512, 256, 1024]
BLOCKS = [4, 2, 8]  # per multiprocessor
VECS = [4, 2, 8]    # 16-byte loads in flight per thread
when = ["BLOCK * BLOCKS <= 2048"]
*/
// As many blocks as run at once stride over the input; a second launch adds what they leave.
__device__ __forceinline__ float sum_over_block(float value) {
  __shared__ float part[32];
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int s = 16; s > 0; s /= 2) value += __shfl_xor_sync(0xffffffffu, value, s);
  if (lane == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < BLOCK / 32 ? part[lane] : 0.0f;
#pragma unroll
  for (int s = 16; s > 0; s /= 2) value += __shfl_xor_sync(0xffffffffu, value, s);
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
sum_parts(const float* __restrict__ x, float* __restrict__ partial, int N) {
  const float4* x4 = (const float4*)x;
  const unsigned vectors = N / 4;
  const unsigned step = gridDim.x * (BLOCK * VECS);
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (unsigned base = blockIdx.x * (BLOCK * VECS) + threadIdx.x; base < vectors; base += step) {
    float4 v[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const unsigned at = base + i * BLOCK;
      v[i] = at < vectors ? __ldcs(x4 + at) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      sum.x += v[i].x;
      sum.y += v[i].y;
      sum.z += v[i].z;
      sum.w += v[i].w;
    }
  }
  const unsigned tail = 4 * vectors + threadIdx.x;
  if (blockIdx.x == 0 && tail < (unsigned)N) sum.x += x[tail];
  const float total = sum_over_block((sum.x + sum.y) + (sum.z + sum.w));
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
sum_partials(const float* __restrict__ partial, float* __restrict__ y, int parts) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < parts; i += BLOCK) sum += partial[i];
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) y[0] = sum;
}
