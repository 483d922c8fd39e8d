/* kforecast 1
task = "bias_gelu"
[[launch]]
entry = "bias_gelu"
args = ["x", "b", "y", "R", "C"]
grid = ["cdiv(R * C, 256)"]
block = [256]
*/
// One thread per element: GELU(z) = z / 2 (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))), z = x + b.
extern "C" __global__ void bias_gelu(const float* x, const float* b, float* y, int R, int C) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= R * C) return;
  const float z = x[i] + b[i % C];
  const float u = 0.7978845608f * (z + 0.044715f * z * z * z);
  y[i] = 0.5f * z * (1.0f + tanhf(u));
}
