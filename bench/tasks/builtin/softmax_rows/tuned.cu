/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
grid = ["cdiv(R, max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS)))))"]
block = ["min(THREADS, max(32, pow2ceil(cdiv(C, 4 * VECS))))", "max(1, 128 // max(32, pow2ceil(cdiv(C, 4 * VECS))))"]
[tune]
VECS = [4, 2, 8]       # 16-byte vectors of its row that a thread holds in registers
THREADS = [1024, 512]  # at most so many threads share a row
*/
// Rows that fit are read once into registers; longer ones take a second read, from the L2 cache where it still holds
// them.
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
softmax_rows(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
  __shared__ float part[2][32];
  const int t = threadIdx.x;
  const int T = blockDim.x;
  const int r = blockIdx.x * blockDim.y + threadIdx.y;
  const float* in = x + (long long)min(r, R - 1) * C;
  float* out = y + (long long)r * C;

  if (C <= 4 * VECS * T) {
    float v[4 * VECS];
    load_row(in, C, __int_as_float(0xff800000), v);
    float m = v[0];
#pragma unroll
    for (int i = 1; i < 4 * VECS; ++i) m = fmaxf(m, v[i]);
    m = row_max(m, part[0]);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4 * VECS; ++i) {
      v[i] = expf(v[i] - m);
      sum += v[i];
    }
    const float scale = 1.0f / row_sum(sum, part[1]);
    if (r >= R) return;
    if (C % 4 == 0) {
#pragma unroll
      for (int i = 0; i < VECS; ++i) {
        const int c = 4 * (t + i * T);
        if (c < C) {
          __stcs((float4*)(out + c), make_float4(v[4 * i] * scale, v[4 * i + 1] * scale, v[4 * i + 2] * scale,
                                                 v[4 * i + 3] * scale));
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4 * VECS; ++i) {
        if (t + i * T < C) __stcs(out + t + i * T, v[i] * scale);
      }
    }
    return;
  }

  // One row a block from here on: a running maximum and the sum of exponentials relative to it.
  float m = LOWEST;
  float sum = 0.0f;
  if (C % 4 == 0) {
#pragma unroll 4
    for (int c = 4 * t; c < C; c += 4 * T) {
      const float4 q = *(const float4*)(in + c);
      const float top = fmaxf(fmaxf(q.x, q.y), fmaxf(q.z, q.w));
      if (top > m) {
        sum *= expf(m - top);
        m = top;
      }
      sum += expf(q.x - m) + expf(q.y - m) + expf(q.z - m) + expf(q.w - m);
    }
  } else {
#pragma unroll 4
    for (int c = t; c < C; c += T) {
      const float value = in[c];
      if (value > m) {
        sum *= expf(m - value);
        m = value;
      }
      sum += expf(value - m);
    }
  }
  const float top = row_max(m, part[0]);
  const float scale = 1.0f / row_sum(sum * expf(m - top), part[1]);
  if (C % 4 == 0) {
#pragma unroll 4
    for (int c = 4 * t; c < C; c += 4 * T) {
      const float4 q = __ldcs((const float4*)(in + c));
      __stcs((float4*)(out + c), make_float4(expf(q.x - top) * scale, expf(q.y - top) * scale, expf(q.z - top) * scale,
                                             expf(q.w - top) * scale));
    }
  } else {
#pragma unroll 4
    for (int c = t; c < C; c += T) __stcs(out + c, expf(in[c] - top) * scale);
  }
}
