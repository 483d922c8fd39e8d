// A graph of three kernels, launched ten times.
#include <cstdio>

__global__ void add_one(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}

int main() {
  const int n = 1 << 20;
  float *x, first = -1;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  if (cudaMalloc(&x, n * sizeof(float)) || cudaMemset(x, 0, n * sizeof(float)) || cudaStreamCreate(&stream)) return 2;
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)) return 3;
  for (int i = 0; i < 3; i++) add_one<<<n / 256, 256, 0, stream>>>(x, n);
  if (cudaStreamEndCapture(stream, &graph) || cudaGraphInstantiate(&made, graph, 0)) return 3;
  for (int i = 0; i < 10; i++) cudaGraphLaunch(made, stream);
  if (cudaStreamSynchronize(stream) || cudaMemcpy(&first, x, sizeof first, cudaMemcpyDeviceToHost)) return 4;
  std::printf("%g\n", first);
  return first == 30.0f ? 0 : 1;
}
