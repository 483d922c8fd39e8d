// The oracle's own kernels: many small copies, fills and comparisons in one launch each. blockIdx.y is the job.

extern "C" __global__ void copy_many(unsigned char *const *to, const unsigned char *const *from,
                                     const unsigned long long *bytes) {
    unsigned char *out = to[blockIdx.y];
    const unsigned char *in = from[blockIdx.y];
    unsigned long long size = bytes[blockIdx.y], step = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
#pragma unroll 4
    for (unsigned long long i = first; i < size / 16; i += step) ((uint4 *)out)[i] = ((const uint4 *)in)[i];
    for (unsigned long long i = size / 16 * 16 + first; i < size; i += step) out[i] = in[i];
}

// word: the pattern, repeated every 8 bytes from the job's start.
extern "C" __global__ void fill_many(unsigned char *const *to, const unsigned long long *word,
                                     const unsigned long long *bytes) {
    unsigned char *out = to[blockIdx.y];
    unsigned long long value = word[blockIdx.y], size = bytes[blockIdx.y];
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    // A red zone starts where its tensor ends, at any byte.
    unsigned long long whole = (unsigned long long)out % 8 == 0 ? size / 8 : 0;
    for (unsigned long long i = first; i < whole; i += step) ((unsigned long long *)out)[i] = value;
    for (unsigned long long i = whole * 8 + first; i < size; i += step) out[i] = (unsigned char)(value >> (8 * (i % 8)));
}

// differ[job] = whether any byte differs from another buffer's, or (pattern[job]) from a word repeated every 8 bytes.
extern "C" __global__ void differ_many(const unsigned char *const *a, const unsigned long long *other,
                                       const unsigned long long *bytes, const unsigned long long *pattern,
                                       unsigned *differ) {
    const unsigned char *x = a[blockIdx.y];
    unsigned long long size = bytes[blockIdx.y], step = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    bool different = false;
    if (pattern[blockIdx.y]) {  // red zones: short, and at any byte
        unsigned long long value = other[blockIdx.y];
        for (unsigned long long i = first; i < size; i += step)
            different |= x[i] != (unsigned char)(value >> (8 * (i % 8)));
    } else {
        const unsigned char *y = (const unsigned char *)other[blockIdx.y];
#pragma unroll 4
        for (unsigned long long i = first; i < size / 16; i += step) {
            uint4 v = ((const uint4 *)x)[i], w = ((const uint4 *)y)[i];
            different |= v.x != w.x || v.y != w.y || v.z != w.z || v.w != w.w;
        }
        for (unsigned long long i = size / 16 * 16 + first; i < size; i += step) different |= x[i] != y[i];
    }
    if (different) differ[blockIdx.y] = 1;
}

__device__ double as_double(const void *p, unsigned long long i, int kind) {
    switch (kind) {
        case 0: return ((const double *)p)[i];
        case 1: return ((const float *)p)[i];
        case 2: {  // f16
            unsigned short h = ((const unsigned short *)p)[i];
            unsigned sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 0x3ffu;
            if (exponent == 31u) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
            if (exponent == 0u) return (sign ? -1.0 : 1.0) * (double)fraction * 5.9604644775390625e-8;
            return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
        }
        default: return __uint_as_float((unsigned)((const unsigned short *)p)[i] << 16);  // bf16
    }
}

struct Verdict {
    double squares;
    unsigned long long finite, wrong, tail;
};

// One pass over an output against its golden values, the whole gate: how many elements are wrong (scaled error above
// `maximum`, or not finite where they should be, or the reverse), how many exceed `tail`, and the sum of squares.
// The scale is that of correctness/norms.py: given[i] where it is a positive number, else max(|golden|, rms of the row).
extern "C" __global__ void judge(const void *got, int kind, const double *golden, const double *row,
                                 unsigned long long row_length, const double *given, double maximum, double tail,
                                 double top, unsigned long long count, Verdict *verdict) {
    double squares = 0;
    unsigned long long finite = 0, wrong = 0, tails = 0, step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < count; i += step) {
        double value = as_double(got, i, kind), want = golden[i];
        double rms = row[i / row_length];
        double scale = fmax(isfinite(want) ? fabs(want) : rms, rms);
        if (given && isfinite(given[i]) && given[i] > 0) scale = given[i];
        double error = fabs(value - want) / scale;
        bool number = error <= maximum && fabs(want) <= 1.01 * top;
        bool infinity = isinf(value) && (value > 0) == (want > 0) && fabs(want) >= 0.99 * top;
        if (!(number || infinity || (isnan(value) && isnan(want)))) wrong++;
        if (isfinite(error)) {
            finite++;
            if (error > tail) tails++;
            double small = fmin(error, 1e100);
            squares += small * small;
        }
    }
    for (int offset = 16; offset; offset /= 2) {
        squares += __shfl_down_sync(~0u, squares, offset);
        finite += __shfl_down_sync(~0u, finite, offset);
        wrong += __shfl_down_sync(~0u, wrong, offset);
        tails += __shfl_down_sync(~0u, tails, offset);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&verdict->squares, squares);
        atomicAdd(&verdict->finite, finite);
        atomicAdd(&verdict->wrong, wrong);
        atomicAdd(&verdict->tail, tails);
    }
}
