// The same kernel on four streams at once.
#include <cstdio>

__global__ void spin(float* x, int turns) {
  float y = threadIdx.x;
  for (int i = 0; i < turns; i++) y = y * 1.0001f + 0.5f;
  x[blockIdx.x * blockDim.x + threadIdx.x] = y;
}

int main() {
  cudaStream_t streams[4];
  float* x;
  if (cudaMalloc(&x, 4 * 8 * 256 * sizeof(float))) return 2;
  for (auto& stream : streams) cudaStreamCreate(&stream);
  for (int turn = 0; turn < 8; turn++)
    for (int s = 0; s < 4; s++) spin<<<8, 256, 0, streams[s]>>>(x + s * 8 * 256, 20000);
  if (cudaDeviceSynchronize()) return 3;
  for (auto& stream : streams) cudaStreamDestroy(stream);
  std::printf("done\n");
  return 0;
}
