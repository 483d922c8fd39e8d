/* kforecast 1
task = "attention"
[[launch]]
entry = "attention"
args = ["q", "k", "v", "o", "H", "S", "D"]
grid = ["cdiv(S, 128 // cdiv(D, 64))", "H"]
block = [256]
smem = "4 * ((128 // cdiv(D, 64) + KEYS) * (64 * cdiv(D, 64) + 4) + KEYS * 64 * cdiv(D, 64) + 128 // cdiv(D, 64) * (KEYS + 16))"
[tune]
KEYS = [64, 32]  # keys a step
*/
// A block owns 128 queries (64 where D > 64; D is at most 128) and passes over the keys, KEYS at a time, with a running
// maximum, sum and weighted sum of values per query. A thread has queries ty + 16 i and, of each step, keys tx + 16 j;
// of the output, columns 4 tx to 4 tx + 3 of every 64. All reads of shared memory are 16 bytes wide along a row. Keys
// and values arrive asynchronously while the other of the two is in use.
#define KEY_GROUPS (KEYS / 16)
#define P_PITCH (KEYS + 16)  // the two rows that a warp touches at once lie 16 banks apart

// 16 bytes from device to shared memory behind the threads' backs; zeros where `inside` is false.
__device__ __forceinline__ void cp_async16(void* shared, const void* global, bool inside) {
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING of this thread's groups are under way.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Rows of D elements into rows of PITCH; zeros up to DP columns and from row `rows` on.
template <int DP, int PITCH, int ROWS>
__device__ __forceinline__ void load_rows(float* to, const float* from, int rows, int D) {
  if (D % 4 == 0) {
#pragma unroll 4
    for (int at = threadIdx.x; at < ROWS * DP / 4; at += 256) {
      const int r = at / (DP / 4);
      const int d = at % (DP / 4) * 4;
      const bool inside = r < rows && d < D;
      cp_async16(to + r * PITCH + d, from + (inside ? (long long)r * D + d : 0), inside);
    }
  } else {
#pragma unroll 1
    for (int at = threadIdx.x; at < ROWS * DP; at += 256) {
      const int r = at / DP;
      const int d = at % DP;
      to[r * PITCH + d] = r < rows && d < D ? from[(long long)r * D + d] : 0.0f;
    }
  }
}

template <int DP>
__device__ __forceinline__ void attend(const float* q, const float* k, const float* v, float* o, int S, int D,
                                       float* shared) {
  constexpr int PITCH = DP + 4;
  constexpr int PARTS = DP / 64;
  constexpr int QUERIES = 8 / PARTS;
  constexpr int ROWS = 16 * QUERIES;
  float* Q = shared;
  float* K = Q + ROWS * PITCH;
  float* V = K + KEYS * PITCH;
  float* P = V + KEYS * DP;
  const int tx = threadIdx.x % 16;
  const int ty = threadIdx.x / 16;
  const int q0 = blockIdx.x * ROWS;
  const long long head = (long long)blockIdx.y * S * D;
  const float scale = 1.4426950408889634f / sqrtf((float)D);  // scores in powers of two

  float sum[QUERIES];
  float top[QUERIES];
  float out[QUERIES][PARTS][4];
#pragma unroll
  for (int i = 0; i < QUERIES; ++i) {
    sum[i] = 0.0f;
    top[i] = __int_as_float(0xff800000);  // -inf
#pragma unroll
    for (int c = 0; c < PARTS; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[i][c][e] = 0.0f;
    }
  }

  load_rows<DP, PITCH, ROWS>(Q, q + (head + (long long)q0 * D), S - q0, D);
  load_rows<DP, PITCH, KEYS>(K, k + head, S, D);
  cp_async_commit();
  for (int k0 = 0; k0 < S; k0 += KEYS) {
    cp_async_wait<0>();
    __syncthreads();  // the keys have arrived; the last step's values are done with
    load_rows<DP, DP, KEYS>(V, v + (head + (long long)k0 * D), S - k0, D);
    cp_async_commit();

    float s[QUERIES][KEY_GROUPS];
#pragma unroll
    for (int i = 0; i < QUERIES; ++i) {
#pragma unroll
      for (int j = 0; j < KEY_GROUPS; ++j) s[i][j] = 0.0f;
    }
#pragma unroll 1
    for (int d = 0; d < DP; d += 4) {
      float4 key[KEY_GROUPS];
#pragma unroll
      for (int j = 0; j < KEY_GROUPS; ++j) key[j] = *(const float4*)(K + (tx + 16 * j) * PITCH + d);
#pragma unroll
      for (int i = 0; i < QUERIES; ++i) {
        const float4 query = *(const float4*)(Q + (ty + 16 * i) * PITCH + d);
#pragma unroll
        for (int j = 0; j < KEY_GROUPS; ++j) {
          s[i][j] += query.x * key[j].x;
          s[i][j] += query.y * key[j].y;
          s[i][j] += query.z * key[j].z;
          s[i][j] += query.w * key[j].w;
        }
      }
    }
    __syncthreads();  // the keys are done with
    if (k0 + KEYS < S) load_rows<DP, PITCH, KEYS>(K, k + (head + (long long)(k0 + KEYS) * D), S - k0 - KEYS, D);
    cp_async_commit();

#pragma unroll
    for (int i = 0; i < QUERIES; ++i) {
      float highest = top[i];
#pragma unroll
      for (int j = 0; j < KEY_GROUPS; ++j) {
        if (k0 + tx + 16 * j >= S) s[i][j] = __int_as_float(0xff800000);
        highest = fmaxf(highest, s[i][j] * scale);
      }
#pragma unroll
      for (int w = 8; w > 0; w /= 2) highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, w));
      const float shrink = exp2f(top[i] - highest);
      top[i] = highest;
      sum[i] *= shrink;
#pragma unroll
      for (int j = 0; j < KEY_GROUPS; ++j) {
        const float p = exp2f(fmaf(s[i][j], scale, -highest));
        sum[i] += p;
        P[(ty + 16 * i) * P_PITCH + tx + 16 * j] = p;
      }
#pragma unroll
      for (int c = 0; c < PARTS; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[i][c][e] *= shrink;
      }
    }
    cp_async_wait<1>();
    __syncthreads();  // the values have arrived; the probabilities are written

#pragma unroll 1
    for (int key = 0; key < KEYS; key += 4) {
      float p[QUERIES][4];
#pragma unroll
      for (int i = 0; i < QUERIES; ++i) *(float4*)p[i] = *(const float4*)(P + (ty + 16 * i) * P_PITCH + key);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int c = 0; c < PARTS; ++c) {
          const float4 value = *(const float4*)(V + (key + n) * DP + 64 * c + 4 * tx);
#pragma unroll
          for (int i = 0; i < QUERIES; ++i) {
            out[i][c][0] += p[i][n] * value.x;
            out[i][c][1] += p[i][n] * value.y;
            out[i][c][2] += p[i][n] * value.z;
            out[i][c][3] += p[i][n] * value.w;
          }
        }
      }
    }
  }

#pragma unroll
  for (int i = 0; i < QUERIES; ++i) {
#pragma unroll
    for (int w = 8; w > 0; w /= 2) sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], w);
    const int row = q0 + ty + 16 * i;
    if (row >= S) continue;
    const float inverse = 1.0f / sum[i];
#pragma unroll
    for (int c = 0; c < PARTS; ++c) {
      const int d = 64 * c + 4 * tx;
      float* to = o + (head + (long long)row * D + d);
      if (D % 4 == 0) {
        if (d < D) {
          *(float4*)to = make_float4(out[i][c][0] * inverse, out[i][c][1] * inverse, out[i][c][2] * inverse,
                                     out[i][c][3] * inverse);
        }
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (d + e < D) to[e] = out[i][c][e] * inverse;
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(256, 2)
attention(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ o,
          int H, int S, int D) {
  extern __shared__ __align__(16) float shared[];
  if (D <= 64) {
    attend<64>(q, k, v, o, S, D, shared);
  } else {
    attend<128>(q, k, v, o, S, D, shared);
  }
}
