/* kforecast 1
task = "rmsnorm"
[[launch]]
entry = "rmsnorm"
args = ["x", "w", "y", "R", "C"]
grid = ["R"]
block = [256]
*/
/* expect: incorrect: eps is left out, which decides rows of tiny elements. */
extern "C" __global__ void rmsnorm(const float* x, const float* w, float* y, int R, int C) {
  __shared__ float part[256];
  const long long row = (long long)blockIdx.x * C;
  const int t = threadIdx.x;
  float squares = 0.0f;
  for (int c = t; c < C; c += 256) squares += x[row + c] * x[row + c];
  part[t] = squares;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (t < s) part[t] = part[t] + part[t + s];
    __syncthreads();
  }
  const float scale = rsqrtf(part[0] / C);
  for (int c = t; c < C; c += 256) y[row + c] = x[row + c] * scale * w[c];
}
