// Managed memory: written by the host, doubled by the device, read by the host.
#include <cstdio>

__global__ void twice(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}

int main() {
  const int n = 1 << 20;
  float* x;
  if (cudaMallocManaged(&x, n * sizeof(float))) return 2;
  for (int i = 0; i < n; i++) x[i] = i;
  for (int turn = 0; turn < 4; turn++) twice<<<n / 256, 256>>>(x, n);
  if (cudaDeviceSynchronize()) return 3;
  std::printf("x[7] = %g\n", x[7]);
  return x[7] == 112.0f ? 0 : 1;
}
