/* kforecast 1
task = "conv1d"
[[launch]]
entry = "conv1d"
args = ["x", "w", "y", "G", "C", "L", "T"]
grid = ["cdiv(G * C * L, 256)"]
block = [256]
*/
/* expect: incorrect: the taps run backwards. */
extern "C" __global__ void conv1d(const float* x, const float* w, float* y, int G, int C, int L, int T) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= G * C * L) return;
  const int l = i % L;
  const int c = i / L % C;
  float sum = 0.0f;
  for (int t = 0; t < T && t <= l; ++t) sum += w[c * T + t] * x[i - t];
  y[i] = sum;
}
