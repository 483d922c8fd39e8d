// A kernel that runs, and an exit code that says something went wrong.
#include <cstdio>

__global__ void nothing() {}

int main() {
  nothing<<<1, 32>>>();
  cudaDeviceSynchronize();
  std::fprintf(stderr, "the check failed\n");
  return 7;
}
