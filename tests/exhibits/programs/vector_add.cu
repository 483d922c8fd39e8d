// One kernel, twenty launches; prints whether the sum is right.
#include <cstdio>
#include <vector>

#define CHECK(call)                                                         \
  do {                                                                      \
    cudaError_t status = (call);                                            \
    if (status != cudaSuccess) {                                            \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));  \
      return 2;                                                             \
    }                                                                       \
  } while (0)

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main() {
  const int n = 1 << 24;
  std::vector<float> host(n, 1.5f);
  float *a, *b, *c;
  CHECK(cudaMalloc(&a, n * sizeof(float)));
  CHECK(cudaMalloc(&b, n * sizeof(float)));
  CHECK(cudaMalloc(&c, n * sizeof(float)));
  CHECK(cudaMemcpy(a, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(b, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  for (int turn = 0; turn < 20; turn++) vector_add<<<(n + 255) / 256, 256>>>(a, b, c, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(host.data(), c, n * sizeof(float), cudaMemcpyDeviceToHost));
  std::printf("c[0] = %g, c[n - 1] = %g\n", host[0], host[n - 1]);
  return host[n - 1] == 3.0f ? 0 : 1;
}
