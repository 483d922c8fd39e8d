/* kforecast 1
task = "transpose"
[[launch]]
entry = "transpose"
args = ["x", "y", "R", "C"]
grid = ["cdiv(C, 32)", "cdiv(R, 8)"]
block = [32, 8]
*/
/* expect: incorrect: rows of y are taken to be C long, which only square matrices survive. */
extern "C" __global__ void transpose(const float* x, float* y, int R, int C) {
  const int c = blockIdx.x * 32 + threadIdx.x;
  const int r = blockIdx.y * 8 + threadIdx.y;
  if (r < R && c < C) y[((long long)c * C + r) % ((long long)R * C)] = x[(long long)r * C + c];
}
