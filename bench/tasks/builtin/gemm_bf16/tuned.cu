/* kforecast 1
task = "gemm_bf16"
[[launch]]
entry = "gemm_bf16"
args = ["A", "B", "C", "M", "N", "K"]
grid = ["cdiv(N, BN)", "cdiv(M, BM)"]
block = [256]
smem = "2 * STAGES * (BM + BN) * BK"
[tune]
BM = [128, 64]
BN = [256, 128]
BK = [32, 64]
STAGES = [4, 3]
when = ["2 * STAGES * (BM + BN) * BK <= SMEM_MAX"]
*/
#include <cuda_bf16.h>

// A block of 8 warps, 2 x 4, makes BM x BN of C with the tensor cores' 16 x 8 x 16 products. Tiles of A and B arrive
// asynchronously in a ring of STAGES; the 16-byte chunks of a row are permuted so that the 8 rows of a matrix load lie
// in different banks.
#define CHUNKS (BK / 8)
#define M_TILES (BM / 32)  // 16-row products of a warp
#define N_TILES (BN / 32)  // 8-column products of a warp

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

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void ldmatrix4(unsigned (&r)[4], const void* shared) {
  const unsigned from = (unsigned)__cvta_generic_to_shared(shared);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ void mma16816(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The place of chunk `chunk` of row `row` in a tile.
__device__ __forceinline__ int place(int row, int chunk) {
  const int turn = CHUNKS == 8 ? row & 7 : (row >> 1) & 3;
  return row * BK + (chunk ^ turn) * 8;
}

// Rows [r0, r0 + ROWS) and columns [k0, k0 + BK) of a row-major matrix with K columns; zeros outside.
template <int ROWS>
__device__ __forceinline__ void load_tile(__nv_bfloat16* tile, const __nv_bfloat16* from, int r0, int rows, int k0,
                                          int K) {
#pragma unroll
  for (int i = 0; i < ROWS * CHUNKS / 256; ++i) {
    const int at = threadIdx.x + i * 256;
    const int row = at / CHUNKS;
    const int chunk = at % CHUNKS;
    const int k = k0 + chunk * 8;
    const bool inside = r0 + row < rows && k < K;
    __nv_bfloat16* to = tile + place(row, chunk);
    const __nv_bfloat16* source = from + (inside ? (long long)(r0 + row) * K + k : 0);
    if (K % 8 == 0) {
      cp_async16(to, source, inside);
    } else {
      for (int j = 0; j < 8; ++j) to[j] = inside && k + j < K ? source[j] : __float2bfloat16(0.0f);
    }
  }
}

struct Fragments {
  unsigned a[M_TILES][4];
  unsigned b[N_TILES / 2][4];
};

// The warp's operands of step `step` of 16 columns.
__device__ __forceinline__ void load_fragments(Fragments& f, const __nv_bfloat16* a_tile, const __nv_bfloat16* b_tile,
                                               int step) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < M_TILES; ++i) {
    const int row = warp / 4 * (BM / 2) + i * 16 + lane % 16;
    ldmatrix4(f.a[i], a_tile + place(row, step * 2 + lane / 16));
  }
#pragma unroll
  for (int j = 0; j < N_TILES / 2; ++j) {
    const int row = warp % 4 * (BN / 4) + j * 16 + lane / 16 * 8 + lane % 8;
    ldmatrix4(f.b[j], b_tile + place(row, step * 2 + lane / 8 % 2));
  }
}

extern "C" __global__ void __launch_bounds__(256, BM * BN <= 16384 ? 2 : 1)
gemm_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
          int M, int N, int K) {
  extern __shared__ __align__(128) __nv_bfloat16 shared[];
  __nv_bfloat16* a_ring = shared;
  __nv_bfloat16* b_ring = shared + STAGES * BM * BK;
  const int m0 = blockIdx.y * BM;
  const int n0 = blockIdx.x * BN;
  const int tiles = (K + BK - 1) / BK;

  float sum[M_TILES][N_TILES][4];
#pragma unroll
  for (int i = 0; i < M_TILES; ++i) {
#pragma unroll
    for (int j = 0; j < N_TILES; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[i][j][e] = 0.0f;
    }
  }

#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < tiles) {
      load_tile<BM>(a_ring + s * BM * BK, A, m0, M, s * BK, K);
      load_tile<BN>(b_ring + s * BN * BK, B, n0, N, s * BK, K);
    }
    cp_async_commit();
  }
  int now = 0;
  int vacant = STAGES - 1;
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // the tile has arrived for all, and all have left the one that is loaded over
    if (tile + STAGES - 1 < tiles) {
      load_tile<BM>(a_ring + vacant * BM * BK, A, m0, M, (tile + STAGES - 1) * BK, K);
      load_tile<BN>(b_ring + vacant * BN * BK, B, n0, N, (tile + STAGES - 1) * BK, K);
    }
    cp_async_commit();

    const __nv_bfloat16* a_tile = a_ring + now * BM * BK;
    const __nv_bfloat16* b_tile = b_ring + now * BN * BK;
    Fragments f[2];
    load_fragments(f[0], a_tile, b_tile, 0);
#pragma unroll
    for (int step = 0; step < BK / 16; ++step) {
      if (step + 1 < BK / 16) load_fragments(f[(step + 1) % 2], a_tile, b_tile, step + 1);
#pragma unroll
      for (int i = 0; i < M_TILES; ++i) {
#pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
          mma16816(sum[i][j], f[step % 2].a[i], f[step % 2].b[j / 2][j % 2 * 2], f[step % 2].b[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
    now = now + 1 == STAGES ? 0 : now + 1;
    vacant = vacant + 1 == STAGES ? 0 : vacant + 1;
  }

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < M_TILES; ++i) {
#pragma unroll
    for (int j = 0; j < N_TILES; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m = m0 + warp / 4 * (BM / 2) + i * 16 + half * 8 + lane / 4;
        const int n = n0 + warp % 4 * (BN / 4) + j * 8 + lane % 4 * 2;
        __nv_bfloat16* to = C + (long long)m * N + n;
        if (m >= M) continue;
        if (N % 2 == 0) {
          if (n < N) *(__nv_bfloat162*)to = __floats2bfloat162_rn(sum[i][j][half * 2], sum[i][j][half * 2 + 1]);
        } else {
          if (n < N) to[0] = __float2bfloat16(sum[i][j][half * 2]);
          if (n + 1 < N) to[1] = __float2bfloat16(sum[i][j][half * 2 + 1]);
        }
      }
    }
  }
}
