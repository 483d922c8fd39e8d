/* kforecast 1
task = "stencil2d"
[[launch]]
entry = "stencil2d"
args = ["x", "y", "H", "W"]
grid = ["cdiv(W, 32)", "cdiv(H, ROWS)"]
block = [32, "ROWS"]
[tune]
ROWS = [8, 4, 16, 32]
*/
// A tile with its halo in shared memory.
extern "C" __global__ void stencil2d(const float* x, float* y, int H, int W) {
  __shared__ float tile[ROWS + 2][34];
  const int w0 = blockIdx.x * 32 - 1;
  const int h0 = blockIdx.y * ROWS - 1;
  for (int i = threadIdx.y * 32 + threadIdx.x; i < (ROWS + 2) * 34; i += 32 * ROWS) {
    const int h = min(max(h0 + i / 34, 0), H - 1);
    const int w = min(max(w0 + i % 34, 0), W - 1);
    tile[i / 34][i % 34] = x[(long long)h * W + w];
  }
  __syncthreads();
  const int w = w0 + 1 + threadIdx.x;
  const int h = h0 + 1 + threadIdx.y;
  if (h >= H || w >= W) return;
  const int a = threadIdx.y + 1;
  const int b = threadIdx.x + 1;
  float value = tile[a][b];
  if (h > 0 && w > 0 && h < H - 1 && w < W - 1) {
    value = 0.5f * value + 0.125f * (tile[a - 1][b] + tile[a + 1][b] + tile[a][b + 1] + tile[a][b - 1]);
  }
  y[(long long)h * W + w] = value;
}
