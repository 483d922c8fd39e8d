/* kforecast 1
task = "layernorm"
[[launch]]
entry = "layernorm"
args = ["x", "gamma", "beta", "y", "R", "C"]
grid = ["cdiv(R, max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS)))))"]
block = ["min(THREADS, max(32, pow2ceil(cdiv(C, 4 * VECS))))", "max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS))))"]
[tune]
VECS = [4, 2, 8]       # 16-byte vectors of its row that a thread holds in registers
THREADS = [1024, 512]  # at most so many threads share a row
when = ["VECS * THREADS <= 4096"]
*/
// Rows that fit are read once into registers; longer ones are read three times. The second sum corrects the rounding of
// the mean, which a nearly constant row would show.
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
layernorm(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
          float* __restrict__ y, int R, int C) {
  __shared__ float part[3][32];
  const int t = threadIdx.x;
  const int T = blockDim.x;
  const int r = blockIdx.x * blockDim.y + threadIdx.y;
  const float* in = x + (long long)min(r, R - 1) * C;
  float* out = y + (long long)r * C;
  const bool aligned = C % 4 == 0;
  const float inverse = 1.0f / C;

  if (C <= 4 * VECS * T) {
    float v[4 * VECS];
    load_row(in, C, 0.0f, v);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4 * VECS; ++i) sum += v[i];
    const float mean = row_sum(sum, part[0]) * inverse;
    float rest = 0.0f;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 4 * VECS; ++i) {
      const int c = aligned ? 4 * (t + i / 4 * T) : t + i * T;
      v[i] -= mean;
      if (c < C) {
        rest += v[i];
        squares += v[i] * v[i];
      }
    }
    rest = row_sum(rest, part[1]) * inverse;
    const float scale = rsqrtf(row_sum(squares, part[2]) * inverse - rest * rest + 1e-5f);
    if (r >= R) return;
    if (aligned) {
#pragma unroll
      for (int i = 0; i < VECS; ++i) {
        const int c = 4 * (t + i * T);
        if (c < C) {
          const float4 g = __ldg((const float4*)(gamma + c));
          const float4 b = __ldg((const float4*)(beta + c));
          __stcs((float4*)(out + c),
                 make_float4((v[4 * i] - rest) * scale * g.x + b.x, (v[4 * i + 1] - rest) * scale * g.y + b.y,
                             (v[4 * i + 2] - rest) * scale * g.z + b.z, (v[4 * i + 3] - rest) * scale * g.w + b.w));
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4 * VECS; ++i) {
        const int c = t + i * T;
        if (c < C) __stcs(out + c, (v[i] - rest) * scale * __ldg(gamma + c) + __ldg(beta + c));
      }
    }
    return;
  }

  float sum = 0.0f;
#pragma unroll 8
  for (int c = t; c < C; c += T) sum += in[c];
  const float mean = row_sum(sum, part[0]) * inverse;
  float rest = 0.0f;
  float squares = 0.0f;
#pragma unroll 8
  for (int c = t; c < C; c += T) {
    const float d = in[c] - mean;
    rest += d;
    squares += d * d;
  }
  rest = row_sum(rest, part[1]) * inverse;
  const float scale = rsqrtf(row_sum(squares, part[2]) * inverse - rest * rest + 1e-5f);
#pragma unroll 8
  for (int c = t; c < C; c += T) __stcs(out + c, (in[c] - mean - rest) * scale * __ldg(gamma + c) + __ldg(beta + c));
}
