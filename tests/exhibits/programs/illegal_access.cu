// Two launches that are right, then one that writes through a null pointer; the program looks and says so.
#include <cstdio>

__global__ void store(float* x) { x[threadIdx.x] = 1.0f; }

int main() {
  float* x;
  if (cudaMalloc(&x, 1024)) return 2;
  for (int turn = 0; turn < 2; turn++) store<<<1, 32>>>(x);
  if (cudaDeviceSynchronize()) return 3;
  store<<<1, 32>>>(nullptr);
  const cudaError_t status = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(status));
  return status == cudaSuccess ? 0 : 1;
}
