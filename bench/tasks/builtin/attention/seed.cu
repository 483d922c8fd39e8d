/* kforecast 1
task = "attention"
[[launch]]
entry = "attention"
args = ["q", "k", "v", "o", "H", "S", "D"]
grid = ["S", "H"]
block = [128]
smem = "4 * S"
*/
// One block per query: its S scores in shared memory, their softmax, the weighted sum of the values.
extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int H, int S, int D) {
  extern __shared__ float score[];
  __shared__ float part[128];
  const long long head = (long long)blockIdx.y * S * D;
  const float* query = q + head + (long long)blockIdx.x * D;
  const int t = threadIdx.x;
  const float scale = 1.0f / sqrtf((float)D);

  float m = __int_as_float(0xff800000);  // -inf
  for (int s = t; s < S; s += 128) {
    const float* key = k + head + (long long)s * D;
    float dot = 0.0f;
    for (int d = 0; d < D; ++d) dot += query[d] * key[d];
    score[s] = dot * scale;
    m = fmaxf(m, score[s]);
  }
  part[t] = m;
  __syncthreads();
  for (int s = 64; s > 0; s /= 2) {
    if (t < s) part[t] = fmaxf(part[t], part[t + s]);
    __syncthreads();
  }
  m = part[0];
  __syncthreads();

  float sum = 0.0f;
  for (int s = t; s < S; s += 128) {
    score[s] = expf(score[s] - m);
    sum += score[s];
  }
  part[t] = sum;
  __syncthreads();
  for (int s = 64; s > 0; s /= 2) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  sum = part[0];

  for (int d = t; d < D; d += 128) {
    float out = 0.0f;
    for (int s = 0; s < S; ++s) out += score[s] * v[head + (long long)s * D + d];
    o[head + (long long)blockIdx.x * D + d] = out / sum;
  }
}
