/* kforecast 1
task = "embedding"
[[launch]]
entry = "embedding"
args = ["table", "idx", "y", "V", "D", "T"]
grid = ["T"]
block = [128]
*/
/* expect: incorrect: rows pass through bf16, where exact copies are wanted. */
#include <cuda_bf16.h>

extern "C" __global__ void embedding(const float* table, const int* idx, float* y, int V, int D, int T) {
  const long long from = (long long)idx[blockIdx.x] * D;
  for (int d = threadIdx.x; d < D; d += 128) {
    y[(long long)blockIdx.x * D + d] = __bfloat162float(__float2bfloat16(table[from + d]));
  }
}
