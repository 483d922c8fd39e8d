/* kforecast 1
task = "argmax_rows"
[[launch]]
entry = "argmax_rows"
args = ["x", "idx", "R", "C"]
grid = ["cdiv(R, max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS)))))"]
block = ["min(THREADS, max(32, pow2ceil(cdiv(C, 4 * VECS))))", "max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS))))"]
[tune]
VECS = [4, 2, 8]           # 16-byte loads in flight per thread
THREADS = [512, 256, 1024] # at most so many threads share a row
when = ["VECS * THREADS <= 4096"]
*/
// A thread meets its indices in ascending order, so a strict comparison keeps the lowest; between threads the index
// decides. The few elements before the first 16-byte boundary and after the last go one a thread.
#define NEVER 0x7fffffff

struct Best {
  float value;
  int index;
};

__device__ __forceinline__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__device__ __forceinline__ void offer(Best& best, float value, int index) {
  if (value > best.value) best = Best{value, index};
}

__device__ __forceinline__ Best best_of_warp(Best best) {
#pragma unroll
  for (int s = 16; s > 0; s /= 2) {
    best = better(best, Best{__shfl_xor_sync(0xffffffffu, best.value, s), __shfl_xor_sync(0xffffffffu, best.index, s)});
  }
  return best;
}

extern "C" __global__ void __launch_bounds__(THREADS)
argmax_rows(const float* __restrict__ x, int* __restrict__ idx, int R, int C) {
  __shared__ Best part[32];
  const int t = threadIdx.x;
  const int T = blockDim.x;
  const int r = blockIdx.x * blockDim.y + threadIdx.y;
  const long long start = (long long)min(r, R - 1) * C;
  const float* row = x + start;
  const int head = min(C, (int)((4 - start % 4) % 4));
  const int vectors = (C - head) / 4;
  const float4* body = (const float4*)(row + head);

  Best best = Best{__int_as_float(0xff800000), NEVER};
  if (t < head) offer(best, row[t], t);
  for (int first = t; first < vectors; first += VECS * T) {
    float4 v[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      if (first + i * T < vectors) v[i] = __ldcs(body + first + i * T);
    }
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      if (first + i * T < vectors) {
        const int c = head + 4 * (first + i * T);
        offer(best, v[i].x, c);
        offer(best, v[i].y, c + 1);
        offer(best, v[i].z, c + 2);
        offer(best, v[i].w, c + 3);
      }
    }
  }
  const int tail = head + 4 * vectors + t;
  if (tail < C) offer(best, row[tail], tail);

  best = best_of_warp(best);
  if (T > 32) {
    const int warps = T / 32;
    const int lane = t % 32;
    const int first = threadIdx.y * warps;
    if (lane == 0) part[first + t / 32] = best;
    __syncthreads();
    best = lane < warps ? part[first + lane] : Best{__int_as_float(0xff800000), NEVER};
    best = best_of_warp(best);
  }
  if (t == 0 && r < R) idx[r] = best.index == NEVER ? 0 : best.index;  // NEVER: every element is -inf
}
