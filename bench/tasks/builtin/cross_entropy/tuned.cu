/* kforecast 1
task = "cross_entropy"
[[launch]]
entry = "cross_entropy"
args = ["logits", "labels", "loss", "R", "C"]
grid = ["cdiv(R, max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS)))))"]
block = ["min(THREADS, max(32, pow2ceil(cdiv(C, 4 * VECS))))", "max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS))))"]
[tune]
VECS = [4, 2, 8]           # 16-byte loads in flight per thread
THREADS = [512, 256, 1024] # at most so many threads share a row
*/
// One read: every thread keeps a maximum and the sum of exponentials relative to it, rescaled once per VECS vectors.
// The few elements before the first 16-byte boundary and after the last go one a thread.
#define LOWEST (-3.402823466e38f)

// The maximum over the threads of one row, a whole number of warps; every thread gets it. `part` is used once.
__device__ __forceinline__ float row_max(float value, float* part) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, s));
  if (blockDim.x > 32) {
    const int warps = blockDim.x / 32;
    const int lane = threadIdx.x % 32;
    const int first = threadIdx.y * warps;
    if (lane == 0) part[first + threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < warps ? part[first + lane] : LOWEST;
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, s));
  }
  return value;
}

// The sum over the threads of one row, a whole number of warps; every thread gets it. `part` is used once.
__device__ __forceinline__ float row_sum(float value, float* part) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) value = value + __shfl_xor_sync(0xffffffffu, value, s);
  if (blockDim.x > 32) {
    const int warps = blockDim.x / 32;
    const int lane = threadIdx.x % 32;
    const int first = threadIdx.y * warps;
    if (lane == 0) part[first + threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < warps ? part[first + lane] : 0.0f;
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value = value + __shfl_xor_sync(0xffffffffu, value, s);
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
cross_entropy(const float* __restrict__ logits, const int* __restrict__ labels, float* __restrict__ loss, int R,
              int C) {
  __shared__ float part[2][32];
  const int t = threadIdx.x;
  const int T = blockDim.x;
  const int r = blockIdx.x * blockDim.y + threadIdx.y;
  const int safe = min(r, R - 1);
  const long long start = (long long)safe * C;
  const float* row = logits + start;
  const float chosen = t == 0 ? row[labels[safe]] : 0.0f;
  const int head = min(C, (int)((4 - start % 4) % 4));
  const int vectors = (C - head) / 4;
  const float4* body = (const float4*)(row + head);
  const float none = __int_as_float(0xff800000);  // -inf adds nothing

  const int tail = head + 4 * vectors + t;
  const float before = t < head ? row[t] : none;
  const float after = tail < C ? row[tail] : none;
  float m = fmaxf(fmaxf(before, after), LOWEST);
  float sum = expf(before - m) + expf(after - m);
  for (int first = t; first < vectors; first += VECS * T) {
    float4 v[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      v[i] = first + i * T < vectors ? __ldcs(body + first + i * T) : make_float4(none, none, none, none);
    }
    float top = m;
#pragma unroll
    for (int i = 0; i < VECS; ++i) top = fmaxf(top, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
    sum *= expf(m - top);
    m = top;
#pragma unroll
    for (int i = 0; i < VECS; ++i) sum += (expf(v[i].x - m) + expf(v[i].y - m)) + (expf(v[i].z - m) + expf(v[i].w - m));
  }
  const float top = row_max(m, part[0]);
  sum = row_sum(sum * expf(m - top), part[1]);
  if (t == 0 && r < R) loss[r] = top + logf(sum) - chosen;
}
