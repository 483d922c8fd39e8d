/* kforecast 1
task = "scan"
[[launch]]
entry = "scan"
args = ["x", "y", "N"]
grid = ["cdiv(N, 256)"]
block = [256]
*/
/* expect: incorrect: every block starts from 0: what lies before it is never added. */
extern "C" __global__ void scan(const float* x, float* y, int N) {
  __shared__ float part[256];
  const int t = threadIdx.x;
  const long long i = blockIdx.x * 256LL + t;
  part[t] = i < N ? x[i] : 0.0f;
  __syncthreads();
  for (int s = 1; s < 256; s *= 2) {
    const float left = t >= s ? part[t - s] : 0.0f;
    __syncthreads();
    part[t] += left;
    __syncthreads();
  }
  if (i < N) y[i] = part[t];
}
