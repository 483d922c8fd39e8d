/* kforecast 1
task = "transpose"
[[launch]]
entry = "transpose"
args = ["x", "y", "R", "C"]
grid = ["cdiv(R, 32)", "cdiv(C, ROWS)"]
block = [32, "ROWS"]
[tune]
ROWS = [8, 4, 16, 32]
*/
// One thread per element: reads down columns, writes along rows.
extern "C" __global__ void transpose(const float* x, float* y, int R, int C) {
  const int r = blockIdx.x * 32 + threadIdx.x;
  const int c = blockIdx.y * ROWS + threadIdx.y;
  if (r < R && c < C) y[(long long)c * R + r] = x[(long long)r * C + c];
}
