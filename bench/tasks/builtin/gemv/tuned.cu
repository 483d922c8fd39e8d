/* kforecast 1
task = "gemv"
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
grid = ["cdiv(M, ROWS)"]
block = ["min(THREADS, max(32, pow2ceil(cdiv(K, 4))))"]
[tune]
ROWS = [4, 2, 1, 8]         # rows of A a block
THREADS = [256, 128, 512]
VECS = [2, 1, 4]            # vectors of x in registers
when = ["ROWS * VECS <= 16"]
*/
// A block multiplies ROWS rows at once, so x comes from the caches once per ROWS rows of A; ROWS x VECS loads in
// flight.
extern "C" __global__ void __launch_bounds__(THREADS)
gemv(const float* __restrict__ A, const float* __restrict__ x, float* __restrict__ y, int M, int K) {
  __shared__ float part[ROWS][32];
  const int t = threadIdx.x;
  const int T = blockDim.x;
  const int m0 = blockIdx.x * ROWS;
  const float* row[ROWS];
  float sum[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    row[i] = A + (long long)min(m0 + i, M - 1) * K;
    sum[i] = 0.0f;
  }

  if (K % 4 == 0) {
    const int vectors = K / 4;
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int first = t; first < vectors; first += VECS * T) {
      float4 a[VECS][ROWS];
      float4 b[VECS];
#pragma unroll
      for (int j = 0; j < VECS; ++j) {
        const int k = first + j * T;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) a[j][i] = k < vectors ? __ldcs((const float4*)row[i] + k) : zero;
        b[j] = k < vectors ? __ldg((const float4*)x + k) : zero;
      }
#pragma unroll
      for (int j = 0; j < VECS; ++j) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
          sum[i] += a[j][i].x * b[j].x + a[j][i].y * b[j].y + (a[j][i].z * b[j].z + a[j][i].w * b[j].w);
        }
      }
    }
  } else {
#pragma unroll 4
    for (int k = t; k < K; k += T) {
      const float b = __ldg(x + k);
#pragma unroll
      for (int i = 0; i < ROWS; ++i) sum[i] += row[i][k] * b;
    }
  }

#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2) sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], s);
    if (t % 32 == 0) part[i][t / 32] = sum[i];
  }
  __syncthreads();
  if (t < ROWS && m0 + t < M) {
    float total = 0.0f;
    for (int w = 0; w < T / 32; ++w) total += part[t][w];
    y[m0 + t] = total;
  }
}
