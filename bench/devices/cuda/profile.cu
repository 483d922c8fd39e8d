// The device profile's kernels: each keeps one part of the GPU busy, or waits for it. Compiled like any kernel.
#include "bandwidth.cu"

// A single cycle through all `count` (a power of two) places, `stride` words apart: a linear congruential generator of full
// period (Hull and Dobell, 1962).
extern "C" __global__ void chain(unsigned *p, unsigned count, unsigned stride) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        p[(u64)i * stride] = ((1664525u * i + 1013904223u) & (count - 1)) * stride;
}

extern "C" __global__ void chase(const unsigned *p, unsigned steps, unsigned *sink) {
    unsigned at = 0;
    for (unsigned i = 0; i < steps; ++i) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(p + at));
    if (at == 0xffffffffu) *sink = at;
}

extern "C" __global__ void chase_shared(unsigned steps, unsigned *sink) {
    __shared__ unsigned table[1024];
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x)
        table[i] = (unsigned)__cvta_generic_to_shared(&table[(1664525u * i + 1013904223u) & 1023u]);
    __syncthreads();
    unsigned at = (unsigned)__cvta_generic_to_shared(table);
    if (threadIdx.x == 0)
        for (unsigned i = 0; i < steps; ++i) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at));
    if (at == 0xffffffffu) *sink = at;
}

// 8 loads of 16 bytes a thread and pass, free of bank conflicts.
extern "C" __global__ void shared_read(unsigned passes, unsigned *sink) {
    __shared__ uint4 table[1024];
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) table[i] = make_uint4(i, scrambled(i), 0, 0);
    __syncthreads();
    unsigned base = (unsigned)__cvta_generic_to_shared(table + (threadIdx.x & 31)), mixed = 0;
    for (unsigned pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            uint4 v;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                         : "r"(base + k * 512));
            mixed ^= v.x ^ v.y ^ v.z ^ v.w;
        }
    }
    if (mixed == 0x9e3779b9u) *sink = mixed;
}

// 8 additions a thread and pass, each lane of a warp in its own bank.
extern "C" __global__ void shared_add(unsigned passes, unsigned *sink) {
    __shared__ unsigned table[2048];
    for (unsigned i = threadIdx.x; i < 2048; i += blockDim.x) table[i] = 0;
    __syncthreads();
    for (unsigned pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (int k = 0; k < 8; ++k) atomicAdd(&table[(threadIdx.x + k * 256) & 2047], pass | 1);
    }
    __syncthreads();
    if (table[threadIdx.x] == 0x9e3779b9u) *sink = 1;
}

// 8 additions a thread and pass, on words `mask` + 1 of them; mask 0 is one word for everybody.
extern "C" __global__ void global_add(unsigned *p, unsigned passes, unsigned mask) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    for (unsigned pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (int k = 0; k < 8; ++k, at += step) atomicAdd(&p[at & mask], threadIdx.x | 1);
    }
}

// 64 fused multiply-adds a thread and pass, in 8 independent chains.
extern "C" __global__ void fma_f32(unsigned passes, float a, float b, float *sink) {
    float x[8], sum = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) x[k] = threadIdx.x + k;
    for (unsigned pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (int i = 0; i < 64; ++i) x[i & 7] = fmaf(x[i & 7], a, b);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += x[k];
    if (sum == 12345.678f) *sink = sum;
}

#if __CUDA_ARCH__ >= 800
// 8 mma.sync a warp and pass, in 8 independent chains, operands in registers. Random bits under a fixed exponent.
#define MMA_KERNEL(NAME, TYPE, SHAPE, EXPONENT, RANDOM)                                                                    \
    extern "C" __global__ void NAME(unsigned passes, float *sink) {                                                        \
        unsigned a[4], b[2];                                                                                               \
        float c[8][4] = {}, sum = 0;                                                                                       \
        for (int k = 0; k < 4; ++k) a[k] = EXPONENT | (scrambled(threadIdx.x * 8 + k) & RANDOM);                           \
        for (int k = 0; k < 2; ++k) b[k] = EXPONENT | (scrambled(threadIdx.x * 8 + 4 + k) & RANDOM);                       \
        for (unsigned pass = 0; pass < passes; ++pass) {                                                                   \
            _Pragma("unroll") for (int k = 0; k < 8; ++k)                                                                  \
                asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." TYPE "." TYPE ".f32 "                               \
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                             \
                             : "+f"(c[k][0]), "+f"(c[k][1]), "+f"(c[k][2]), "+f"(c[k][3])                                  \
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                          \
        }                                                                                                                  \
        _Pragma("unroll") for (int k = 0; k < 32; ++k) sum += c[k / 4][k % 4];                                             \
        if (sum == 12345.678f) *sink = sum;                                                                                \
    }

MMA_KERNEL(mma_bf16, "bf16", "m16n8k16", 0x3c003c00u, 0x807f807fu)
MMA_KERNEL(mma_f16, "f16", "m16n8k16", 0x2c002c00u, 0x83ff83ffu)
MMA_KERNEL(mma_tf32, "tf32", "m16n8k8", 0x3c800000u, 0x807fe000u)

extern "C" __global__ void mma_f64(unsigned passes, double *sink) {
    double a = 1.0 / (3 + threadIdx.x), b = 1.0 / (7 + threadIdx.x), c[8][2] = {}, sum = 0;
    for (unsigned pass = 0; pass < passes; ++pass) {
#pragma unroll
        for (int k = 0; k < 8; ++k)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                         : "+d"(c[k][0]), "+d"(c[k][1])
                         : "d"(a), "d"(b));
    }
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += c[k / 2][k % 2];
    if (sum == 12345.678) *sink = sum;
}
#endif
