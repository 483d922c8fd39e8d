/* kforecast 1
task = "scan"
[scratch]
state = { dtype = "i32", shape = ["2 * cdiv(N, 4 * BLOCK * VECS) + 2"], zero = true }
[[launch]]
entry = "scan"
args = ["x", "y", "state", "N"]
grid = ["cdiv(N, 4 * BLOCK * VECS)"]
block = ["BLOCK"]
[tune]
BLOCK = [256, 512, 128]
VECS = [4, 2, 8]  # 16-byte vectors a thread
*/
// One pass with decoupled look-back: a block scans its tile, publishes the tile's sum, and adds up what its
// predecessors published until it meets one that knows its whole prefix. Tiles are handed out by a counter, so every
// predecessor of a running tile has started and the wait ends. A word of `state` holds a flag above a float, and is
// written in one piece.
#define EMPTY 0u
#define SUM 1u     // the tile's own sum
#define PREFIX 2u  // the sum up to and including the tile

__device__ __forceinline__ unsigned long long pack(unsigned flag, float value) {
  return (unsigned long long)flag << 32 | __float_as_uint(value);
}

__device__ __forceinline__ float scan_over_warp(float value) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int s = 1; s < 32; s *= 2) {
    const float left = __shfl_up_sync(0xffffffffu, value, s);
    if (lane >= s) value += left;
  }
  return value;
}

// The sum of everything before `tile`, by one warp: 32 predecessors a step, nearest first.
__device__ __forceinline__ float look_back(volatile unsigned long long* word, int tile) {
  const int lane = threadIdx.x % 32;
  float before = 0.0f;
  for (int nearest = tile - 1;; nearest -= 32) {
    const int from = nearest - lane;
    unsigned long long seen = pack(PREFIX, 0.0f);
    if (from >= 0) {
      do seen = word[from];
      while ((unsigned)(seen >> 32) == EMPTY);
    }
    const unsigned whole = __ballot_sync(0xffffffffu, (unsigned)(seen >> 32) == PREFIX);
    const int last = whole ? __ffs(whole) - 1 : 31;
    float value = lane <= last ? __uint_as_float((unsigned)seen) : 0.0f;
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value += __shfl_xor_sync(0xffffffffu, value, s);
    before += value;
    if (whole) return before;
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
scan(const float* __restrict__ x, float* __restrict__ y, int* state, int N) {
  constexpr int WARPS = BLOCK / 32;
  constexpr int SHARE = 128 * VECS;  // consecutive elements of a warp
  __shared__ int ticket;
  __shared__ float warp_sum[WARPS];
  __shared__ float tile_before;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) ticket = atomicAdd(state, 1);
  __syncthreads();
  const int tile = ticket;
  unsigned long long* word = (unsigned long long*)state + 1;
  const long long first = (long long)tile * (WARPS * SHARE) + warp * SHARE + 4 * lane;

  float4 v[VECS];
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const long long at = first + 128 * i;
    if (at + 3 < N) {
      v[i] = __ldcs((const float4*)(x + at));
    } else {
      v[i].x = at < N ? x[at] : 0.0f;
      v[i].y = at + 1 < N ? x[at + 1] : 0.0f;
      v[i].z = at + 2 < N ? x[at + 2] : 0.0f;
      v[i].w = 0.0f;
    }
  }
  float sum = 0.0f;  // of the warp's elements so far
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    v[i].y += v[i].x;
    v[i].z += v[i].y;
    v[i].w += v[i].z;
    const float through = scan_over_warp(v[i].w);
    const float left = __shfl_up_sync(0xffffffffu, through, 1);
    const float before = lane > 0 ? sum + left : sum;
    v[i].x += before;
    v[i].y += before;
    v[i].z += before;
    v[i].w += before;
    sum += __shfl_sync(0xffffffffu, through, 31);
  }
  if (lane == 0) warp_sum[warp] = sum;
  __syncthreads();

  if (warp == 0) {
    const float own = lane < WARPS ? warp_sum[lane] : 0.0f;
    const float through = scan_over_warp(own);
    const float tile_sum = __shfl_sync(0xffffffffu, through, 31);
    if (tile > 0 && lane == 0) atomicExch(word + tile, pack(SUM, tile_sum));
    const float before = tile > 0 ? look_back(word, tile) : 0.0f;
    if (lane == 0) {
      atomicExch(word + tile, pack(PREFIX, before + tile_sum));
      tile_before = before;
    }
    const float left = __shfl_up_sync(0xffffffffu, through, 1);
    if (lane < WARPS) warp_sum[lane] = lane > 0 ? left : 0.0f;
  }
  __syncthreads();

  const float before = tile_before + warp_sum[warp];
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const long long at = first + 128 * i;
    v[i].x += before;
    v[i].y += before;
    v[i].z += before;
    v[i].w += before;
    if (at + 3 < N) {
      __stcs((float4*)(y + at), v[i]);
    } else {
      if (at < N) y[at] = v[i].x;
      if (at + 1 < N) y[at + 1] = v[i].y;
      if (at + 2 < N) y[at + 2] = v[i].z;
    }
  }
}
