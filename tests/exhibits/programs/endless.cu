// A kernel that does not end, after one that does.
#include <cstdio>

__global__ void ends(int* x) { *x = 1; }
__global__ void endless(volatile int* x) {
  while (*x) {}
}

int main() {
  int* x;
  if (cudaMalloc(&x, sizeof(int))) return 2;
  ends<<<1, 1>>>(x);
  std::printf("one ended: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  std::fflush(stdout);
  endless<<<1, 1>>>(x);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
