/* kforecast 1
task = "transpose"
[[launch]]
entry = "transpose"
args = ["x", "y", "R", "C"]
grid = ["cdiv(C, 32)", "cdiv(R, 8)"]
block = [32, 8]
*/
// One thread per element: reads along rows, writes down columns.
extern "C" __global__ void transpose(const float* x, float* y, int R, int C) {
  const int c = blockIdx.x * 32 + threadIdx.x;
  const int r = blockIdx.y * 8 + threadIdx.y;
  if (r < R && c < C) y[(long long)c * R + r] = x[(long long)r * C + c];
}
