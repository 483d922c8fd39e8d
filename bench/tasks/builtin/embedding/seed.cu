/* kforecast 1
task = "embedding"
[[launch]]
entry = "embedding"
args = ["table", "idx", "y", "V", "D", "T"]
grid = ["T"]
block = [128]
*/
// One block per token copies its row of the table.
extern "C" __global__ void embedding(const float* table, const int* idx, float* y, int V, int D, int T) {
  const long long from = (long long)idx[blockIdx.x] * D;
  const long long to = (long long)blockIdx.x * D;
  for (int d = threadIdx.x; d < D; d += 128) y[to + d] = table[from + d];
}
