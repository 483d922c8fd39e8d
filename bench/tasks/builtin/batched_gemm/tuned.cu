/* kforecast 1
task = "batched_gemm"
[[launch]]
entry = "batched_gemm"
args = ["A", "B", "C", "G", "M", "N", "K"]
grid = ["cdiv(N, BN)", "cdiv(M, BM)", "G"]
block = ["BM * BN // 64"]
[tune]
BM = [128, 64]
BN = [128, 64]
BK = [16, 8]
when = ["16 * BK * (BM + BN) <= 5 * BM * BN"]  # beyond that a thread carries more than its registers hold
*/
// A block makes BM x BN of C, a warp 32 x 64, a thread 8 x 8 as four 4 x 4 pieces, so that every read of shared memory
// is 16 bytes wide and without bank conflicts. Tiles of A (turned, so that a column lies together) and B are double
// buffered: the next ones travel through registers while the present ones are multiplied.
#define THREADS (BM * BN / 64)
#define A_LOADS (BM * BK / 4 / THREADS)
#define B_LOADS (BN * BK / 4 / THREADS)
#define PITCH (BM + 4)

// What a thread carries from device to shared memory: vectors of 4 along the rows of both matrices. Rows and columns
// past the end of C are clamped, for their products are dropped; past the end of K it must be zeros.
struct Tiles {
  float4 a[A_LOADS];
  float4 b[B_LOADS];
};

// For K and N divisible by 4.
__device__ __forceinline__ void load(Tiles& next, const float* A, const float* B, int M, int N, int K, int k0) {
  const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int i = 0; i < A_LOADS; ++i) {
    const int at = threadIdx.x + i * THREADS;
    const int m = min((int)blockIdx.y * BM + at / (BK / 4), M - 1);
    const int k = k0 + at % (BK / 4) * 4;
    next.a[i] = k < K ? __ldg((const float4*)(A + (long long)m * K + k)) : zero;
  }
#pragma unroll
  for (int i = 0; i < B_LOADS; ++i) {
    const int at = threadIdx.x + i * THREADS;
    const int n = min((int)blockIdx.x * BN + at % (BN / 4) * 4, N - 4);
    const int k = k0 + at / (BN / 4);
    next.b[i] = k < K ? __ldg((const float4*)(B + (long long)k * N + n)) : zero;
  }
}

__device__ __forceinline__ void store(const Tiles& next, float (&As)[BK][PITCH], float (&Bs)[BK][BN]) {
#pragma unroll
  for (int i = 0; i < A_LOADS; ++i) {
    const int at = threadIdx.x + i * THREADS;
    const int m = at / (BK / 4);
    const int k = at % (BK / 4) * 4;
    As[k][m] = next.a[i].x;
    As[k + 1][m] = next.a[i].y;
    As[k + 2][m] = next.a[i].z;
    As[k + 3][m] = next.a[i].w;
  }
#pragma unroll
  for (int i = 0; i < B_LOADS; ++i) {
    const int at = threadIdx.x + i * THREADS;
    *(float4*)&Bs[at / (BN / 4)][at % (BN / 4) * 4] = next.b[i];
  }
}

// For any K and N: element by element, straight into shared memory.
__device__ __forceinline__ void load_unaligned(float (&As)[BK][PITCH], float (&Bs)[BK][BN], const float* A,
                                               const float* B, int M, int N, int K, int k0) {
#pragma unroll 1
  for (int at = threadIdx.x; at < BM * BK; at += THREADS) {
    const int m = min((int)blockIdx.y * BM + at / BK, M - 1);
    const int k = k0 + at % BK;
    As[at % BK][at / BK] = k < K ? __ldg(A + (long long)m * K + k) : 0.0f;
  }
#pragma unroll 1
  for (int at = threadIdx.x; at < BN * BK; at += THREADS) {
    const int n = min((int)blockIdx.x * BN + at % BN, N - 1);
    const int k = k0 + at / BN;
    Bs[at / BN][at % BN] = k < K ? __ldg(B + (long long)k * N + n) : 0.0f;
  }
}

template <bool ALIGNED>
__device__ __forceinline__ void multiply(const float* A, const float* B, float* C, int M, int N, int K,
                                         float (&As)[2][BK][PITCH], float (&Bs)[2][BK][BN]) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int m = warp / (BN / 64) * 32 + lane / 8 * 4;
  const int n = warp % (BN / 64) * 64 + lane % 8 * 4;

  float sum[8][8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[i][j] = 0.0f;
  }
  Tiles next;
  if (ALIGNED) {
    load(next, A, B, M, N, K, 0);
    store(next, As[0], Bs[0]);
  } else {
    load_unaligned(As[0], Bs[0], A, B, M, N, K, 0);
  }
  __syncthreads();

  int now = 0;
  for (int k0 = 0; k0 < K; k0 += BK) {
    const bool more = k0 + BK < K;
    if (ALIGNED && more) load(next, A, B, M, N, K, k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[8];
      float b[8];
      *(float4*)&a[0] = *(const float4*)&As[now][k][m];
      *(float4*)&a[4] = *(const float4*)&As[now][k][m + 16];
      *(float4*)&b[0] = *(const float4*)&Bs[now][k][n];
      *(float4*)&b[4] = *(const float4*)&Bs[now][k][n + 32];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += a[i] * b[j];
      }
    }
    now ^= 1;
    if (more) {
      if (ALIGNED) {
        store(next, As[now], Bs[now]);
      } else {
        load_unaligned(As[now], Bs[now], A, B, M, N, K, k0 + BK);
      }
      __syncthreads();
    }
  }

#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = blockIdx.y * BM + m + i % 4 + i / 4 * 16;
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      const int column = blockIdx.x * BN + n + j * 8;
      float* to = C + (long long)row * N + column;
      if (row >= M) continue;
      if (ALIGNED) {
        if (column < N) *(float4*)to = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (column + e < N) to[e] = sum[i][j + e];
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS)
batched_gemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int G, int M, int N,
             int K) {
  __shared__ __align__(16) float As[2][BK][PITCH];
  __shared__ __align__(16) float Bs[2][BK][BN];
  A += (long long)blockIdx.z * M * K;
  B += (long long)blockIdx.z * K * N;
  C += (long long)blockIdx.z * M * N;
  if (K % 4 == 0 && N % 4 == 0) {
    multiply<true>(A, B, C, M, N, K, As, Bs);
  } else {
    multiply<false>(A, B, C, M, N, K, As, Bs);
  }
}
