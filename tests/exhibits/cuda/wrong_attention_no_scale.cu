/* kforecast 1
task = "attention"
[[launch]]
entry = "attention"
args = ["q", "k", "v", "o", "H", "S", "D"]
grid = ["S", "H"]
block = [128]
smem = "4 * S"
*/
/* expect: incorrect: scores are not divided by the square root of D. */
extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int H, int S, int D) {
  extern __shared__ float score[];
  const long long head = (long long)blockIdx.y * S * D;
  const float* query = q + head + (long long)blockIdx.x * D;
  const int keys = S;
  for (int s = threadIdx.x; s < keys; s += 128) {
    float dot = 0.0f;
    for (int d = 0; d < D; ++d) dot += query[d] * k[head + (long long)s * D + d];
    score[s] = dot * 1.0f;
  }
  __syncthreads();
  float m = score[0];
  for (int s = 1; s < keys; ++s) m = fmaxf(m, score[s]);
  float sum = 0.0f;
  for (int s = 0; s < keys; ++s) sum += expf(score[s] - m);
  for (int d = threadIdx.x; d < D; d += 128) {
    float out = 0.0f;
    for (int s = 0; s < keys; ++s) out += expf(score[s] - m) * v[head + (long long)s * D + d];
    o[head + (long long)blockIdx.x * D + d] = out / sum;
  }
}
