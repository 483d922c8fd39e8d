/* kforecast 1
task = "bias_gelu"
[[launch]]
entry = "bias_gelu"
args = ["x", "b", "y", "R", "C"]
grid = ["cdiv(R * C, 256)"]
block = [256]
*/
/* expect: incorrect: the bias is chosen by row, not by column. */
extern "C" __global__ void bias_gelu(const float* x, const float* b, float* y, int R, int C) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= R * C) return;
  const float z = x[i] + b[i / C % C];
  y[i] = 0.5f * z * (1.0f + tanhf(0.7978845608f * (z + 0.044715f * z * z * z)));
}
