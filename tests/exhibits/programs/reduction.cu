// Two kernels: partial sums, then their sum; a template and a name in a namespace among them.
#include <cstdio>

namespace sums {
template <int Block>
__global__ void partial(const float* x, float* parts, int n) {
  __shared__ float shared[Block];
  float sum = 0;
  for (int i = blockIdx.x * Block + threadIdx.x; i < n; i += gridDim.x * Block) sum += x[i];
  shared[threadIdx.x] = sum;
  for (int half = Block / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = shared[0];
}
}  // namespace sums

__global__ void fill(float* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = 1.0f;
}

int main() {
  const int n = 1 << 24, blocks = 512;
  float *x, *parts, *total, answer = 0;
  if (cudaMalloc(&x, n * sizeof(float)) || cudaMalloc(&parts, blocks * sizeof(float)) || cudaMalloc(&total, sizeof(float))) return 2;
  fill<<<1024, 256>>>(x, n);
  for (int turn = 0; turn < 10; turn++) {
    sums::partial<256><<<blocks, 256>>>(x, parts, n);
    sums::partial<512><<<1, 512>>>(parts, total, blocks);
  }
  if (cudaMemcpy(&answer, total, sizeof answer, cudaMemcpyDeviceToHost)) return 3;
  std::printf("%.0f of %d\n", answer, n);
  return answer == n ? 0 : 1;
}
