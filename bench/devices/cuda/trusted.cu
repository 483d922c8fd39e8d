// The launcher's own kernels: what it needs besides the candidate's. Compiled like any kernel.

// Evict the L2 by reading twice its size. Reading leaves clean lines behind; a memset would leave dirty ones, whose
// write-back the next kernel would pay for.
extern "C" __global__ void flush(const uint4 *junk, unsigned long long count, unsigned *sink) {
    unsigned mixed = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < count;
         i += (unsigned long long)gridDim.x * blockDim.x) {
        uint4 v = junk[i];
        mixed ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (mixed == 0x9e3779b9u) *sink = mixed;  // never for zeroed junk, but the compiler cannot know
}

// The least that a launch can cost.
extern "C" __global__ void nothing() {}

// Proof that a device works: y[i] = 3 * i + seed.
extern "C" __global__ void canary(unsigned *y, unsigned count, unsigned seed) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 3u * i + seed;
}
