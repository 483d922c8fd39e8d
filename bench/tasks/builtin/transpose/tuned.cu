/* kforecast 1
task = "transpose"
[[launch]]
entry = "transpose"
args = ["x", "y", "R", "C"]
grid = ["cdiv(C, TILE) * cdiv(R, TILE)"]
block = ["BLOCK"]
[tune]
BLOCK = [256, 128, 512]
TILE = [64, 32]
*/
// A TILE x TILE tile passes through shared memory, its rows one word longer than a power of two against bank conflicts;
// 16-byte reads where C allows, 16-byte writes where R allows.
extern "C" __global__ void __launch_bounds__(BLOCK)
transpose(const float* __restrict__ x, float* __restrict__ y, int R, int C) {
  __shared__ float tile[TILE][TILE + 1];
  constexpr int SIDE = TILE / 4;
  constexpr int STEPS = (TILE * SIDE + BLOCK - 1) / BLOCK;
  const int across = (C + TILE - 1) / TILE;
  const int c0 = blockIdx.x % across * TILE;
  const int r0 = blockIdx.x / across * TILE;
  const int t = threadIdx.x;

  if (C % 4 == 0) {
    float4 v[STEPS];
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      const int r = (t + i * BLOCK) / SIDE;
      const int c = (t + i * BLOCK) % SIDE * 4;
      if (r < TILE && r0 + r < R && c0 + c < C) v[i] = __ldcs((const float4*)(x + (long long)(r0 + r) * C + c0 + c));
    }
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      const int r = (t + i * BLOCK) / SIDE;
      const int c = (t + i * BLOCK) % SIDE * 4;
      if (r < TILE && r0 + r < R && c0 + c < C) {
        tile[r][c] = v[i].x;
        tile[r][c + 1] = v[i].y;
        tile[r][c + 2] = v[i].z;
        tile[r][c + 3] = v[i].w;
      }
    }
  } else {
#pragma unroll 4
    for (int i = t; i < TILE * TILE; i += BLOCK) {
      const int r = i / TILE;
      const int c = i % TILE;
      if (r0 + r < R && c0 + c < C) tile[r][c] = __ldcs(x + (long long)(r0 + r) * C + c0 + c);
    }
  }
  __syncthreads();
  if (R % 4 == 0) {
#pragma unroll
    for (int i = 0; i < STEPS; ++i) {
      const int c = (t + i * BLOCK) / SIDE;
      const int r = (t + i * BLOCK) % SIDE * 4;
      if (c < TILE && c0 + c < C && r0 + r < R) {
        __stcs((float4*)(y + (long long)(c0 + c) * R + r0 + r),
               make_float4(tile[r][c], tile[r + 1][c], tile[r + 2][c], tile[r + 3][c]));
      }
    }
  } else {
#pragma unroll 4
    for (int i = t; i < TILE * TILE; i += BLOCK) {
      const int c = i / TILE;
      const int r = i % TILE;
      if (c0 + c < C && r0 + r < R) __stcs(y + (long long)(c0 + c) * R + r0 + r, tile[r][c]);
    }
  }
}
