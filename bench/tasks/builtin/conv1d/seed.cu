/* kforecast 1
task = "conv1d"
[[launch]]
entry = "conv1d"
args = ["x", "w", "y", "G", "C", "L", "T"]
grid = ["cdiv(L, 256) * G * C"]
block = [256]
*/
// One thread per output; a block stays within one channel.
extern "C" __global__ void conv1d(const float* x, const float* w, float* y, int G, int C, int L, int T) {
  const int parts = (L + 255) / 256;
  const int l = blockIdx.x % parts * 256 + threadIdx.x;
  const long long channel = blockIdx.x / parts;  // g C + c
  if (l >= L) return;
  const int c = channel % C;
  float sum = 0.0f;
  for (int t = 0; t < T; ++t) {
    const int from = l - T + 1 + t;
    if (from >= 0) sum += w[c * T + t] * x[channel * L + from];
  }
  y[channel * L + l] = sum;
}
