/* kforecast 1
task = "stencil2d"
[[launch]]
entry = "stencil2d"
args = ["x", "y", "H", "W"]
grid = ["cdiv(H * W, 256)"]
block = [256]
*/
/* expect: incorrect: only the first and last rows are copied: at the sides the neighbour is taken from the next row. */
extern "C" __global__ void stencil2d(const float* x, float* y, int H, int W) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= H * W) return;
  const int h = i / W;
  y[i] = h == 0 || h == H - 1 ? x[i] : 0.5f * x[i] + 0.125f * (x[i - W] + x[i + W] + x[i + 1] + x[i - 1]);
}
