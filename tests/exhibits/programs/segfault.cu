// The host code itself dies.
#include <cstdio>

__global__ void nothing() {}

int main() {
  nothing<<<1, 1>>>();
  std::printf("before\n");
  std::fflush(stdout);
  volatile int* nowhere = nullptr;
  return *nowhere;
}
