/* kforecast 1
task = "transpose"
[[launch]]
entry = "transpose"
args = ["x", "y", "R", "C"]
grid = ["cdiv(C, 32)", "cdiv(R, 32)"]
block = [32, "ROWS"]
[tune]
ROWS = [8, 2, 4, 16, 32]
*/
// A tile of 32 x 32 through shared memory, both sides along rows.
extern "C" __global__ void transpose(const float* x, float* y, int R, int C) {
  __shared__ float tile[32][32];
  const int c0 = blockIdx.x * 32;
  const int r0 = blockIdx.y * 32;
  for (int i = threadIdx.y; i < 32; i += ROWS) {
    if (r0 + i < R && c0 + threadIdx.x < C) tile[i][threadIdx.x] = x[(long long)(r0 + i) * C + c0 + threadIdx.x];
  }
  __syncthreads();
  for (int i = threadIdx.y; i < 32; i += ROWS) {
    if (c0 + i < C && r0 + threadIdx.x < R) y[(long long)(c0 + i) * R + r0 + threadIdx.x] = tile[threadIdx.x][i];
  }
}
