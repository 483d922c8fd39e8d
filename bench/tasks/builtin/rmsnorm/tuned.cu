/* kforecast 1
task = "rmsnorm"
[[launch]]
entry = "rmsnorm"
args = ["x", "w", "y", "R", "C"]
grid = ["cdiv(R, max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS)))))"]
block = ["min(THREADS, max(32, pow2ceil(cdiv(C, 4 * VECS))))", "max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS))))"]
[tune]
VECS = [4, 2, 8]       # 16-byte vectors of its row that a thread holds in registers
THREADS = [1024, 512]  # at most so many threads share a row
*/
// Rows that fit are read once into registers; longer ones are read twice.
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

// The thread's share of a row: vectors of 4 where rows are aligned, else every T-th element; `pad` past the end.
__device__ __forceinline__ void load_row(const float* row, int C, float pad, float (&v)[4 * VECS]) {
  const int t = threadIdx.x;
  const int T = blockDim.x;
  if (C % 4 == 0) {
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int c = 4 * (t + i * T);
      const float4 q = c < C ? __ldcs((const float4*)(row + c)) : make_float4(pad, pad, pad, pad);
      v[4 * i] = q.x;
      v[4 * i + 1] = q.y;
      v[4 * i + 2] = q.z;
      v[4 * i + 3] = q.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4 * VECS; ++i) v[i] = t + i * T < C ? __ldcs(row + t + i * T) : pad;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
rmsnorm(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int R, int C) {
  __shared__ float part[32];
  const int t = threadIdx.x;
  const int T = blockDim.x;
  const int r = blockIdx.x * blockDim.y + threadIdx.y;
  const float* in = x + (long long)min(r, R - 1) * C;
  float* out = y + (long long)r * C;

  if (C <= 4 * VECS * T) {
    float v[4 * VECS];
    load_row(in, C, 0.0f, v);
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 4 * VECS; ++i) squares += v[i] * v[i];
    const float scale = 1.0f / sqrtf(row_sum(squares, part) / C + 1e-6f);
    if (r >= R) return;
    if (C % 4 == 0) {
#pragma unroll
      for (int i = 0; i < VECS; ++i) {
        const int c = 4 * (t + i * T);
        if (c < C) {
          const float4 g = __ldg((const float4*)(w + c));
          __stcs((float4*)(out + c), make_float4(v[4 * i] * scale * g.x, v[4 * i + 1] * scale * g.y,
                                                 v[4 * i + 2] * scale * g.z, v[4 * i + 3] * scale * g.w));
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4 * VECS; ++i) {
        const int c = t + i * T;
        if (c < C) __stcs(out + c, v[i] * scale * __ldg(w + c));
      }
    }
    return;
  }

  float squares = 0.0f;
#pragma unroll 8
  for (int c = t; c < C; c += T) squares += in[c] * in[c];
  const float scale = 1.0f / sqrtf(row_sum(squares, part) / C + 1e-6f);
#pragma unroll 8
  for (int c = t; c < C; c += T) __stcs(out + c, in[c] * scale * __ldg(w + c));
}
