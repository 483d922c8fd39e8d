/* kforecast 1
task = "histogram"
[[launch]]
entry = "histogram"
args = ["x", "h", "N", "BINS"]
grid = ["min(SM_COUNT * BLOCKS, cdiv(N, 4 * BLOCK))"]
block = ["BLOCK"]
smem = "4 * BINS * min(32, COUNTERS // BINS)"
[tune]
BLOCK = [512, 256, 1024]
BLOCKS = [4, 2, 3]           # per multiprocessor
VECS = [4, 2, 8]             # 16-byte loads in flight per thread
COUNTERS = [8192, 4096, 2048]
when = ["BLOCK * BLOCKS <= 2048"]
*/
// Each block counts in shared memory, in up to 32 interleaved copies chosen by lane, so that equal values in a warp do
// not collide; the copies are added into device memory at the end. More bins than COUNTERS are counted in device
// memory.
__device__ __forceinline__ void count(int* counter, int value, int BINS, int copies, int copy) {
  if ((unsigned)value < (unsigned)BINS) atomicAdd(counter + value * copies + copy, 1);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
histogram(const int* __restrict__ x, int* __restrict__ h, int N, int BINS) {
  extern __shared__ int shared[];
  const int in_shared = min(32, COUNTERS / BINS);
  const int copies = max(1, in_shared);
  const int copy = threadIdx.x % copies;
  int* counter = in_shared > 0 ? shared : h;
  for (int i = threadIdx.x; i < BINS * in_shared; i += BLOCK) shared[i] = 0;
  __syncthreads();

  const int4* x4 = (const int4*)x;
  const unsigned vectors = N / 4;
  const unsigned step = gridDim.x * (BLOCK * VECS);
  for (unsigned base = blockIdx.x * (BLOCK * VECS) + threadIdx.x; base < vectors; base += step) {
    int4 v[VECS];
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const unsigned at = base + i * BLOCK;
      v[i] = at < vectors ? __ldcs(x4 + at) : make_int4(-1, -1, -1, -1);
    }
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      count(counter, v[i].x, BINS, copies, copy);
      count(counter, v[i].y, BINS, copies, copy);
      count(counter, v[i].z, BINS, copies, copy);
      count(counter, v[i].w, BINS, copies, copy);
    }
  }
  const unsigned tail = 4 * vectors + threadIdx.x;
  if (blockIdx.x == 0 && tail < (unsigned)N) count(counter, x[tail], BINS, copies, copy);

  __syncthreads();
  if (in_shared == 0) return;
  for (int b = threadIdx.x; b < BINS; b += BLOCK) {
    int total = 0;
    for (int i = 0; i < copies; ++i) total += shared[b * copies + (i + threadIdx.x) % copies];
    if (total > 0) atomicAdd(h + b, total);
  }
}
