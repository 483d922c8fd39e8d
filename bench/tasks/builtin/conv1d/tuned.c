/* kforecast 1
task = "conv1d"
options = ["-fopenmp"]
[[launch]]
entry = "conv1d"
args = ["x", "w", "y", "G", "C", "L", "T"]
[tune]
THREADS = [1, 2, 4]
STEP = [64, 16, 32, 128]
*/
#include <stddef.h>

/* STEP neighbouring outputs stay in registers while the taps go by. */
static inline __attribute__((always_inline)) void span(const float* in, const float* taps, float* out, int T, int size) {
    float sum[STEP] = {0};
    for (int t = 0; t < T; t++) {
#pragma omp simd
        for (int i = 0; i < size; i++) {
            sum[i] += taps[t] * in[i + t];
        }
    }
    for (int i = 0; i < size; i++) {
        out[i] = sum[i];
    }
}

static void channel(const float* x, const float* taps, float* y, int L, int T) {
    /* The first T-1 outputs reach left of the start: only their last taps count. */
    int head = T - 1 < L ? T - 1 : L;
    for (int l = 0; l < head; l++) {
        float sum = 0.0f;
        for (int t = T - 1 - l; t < T; t++) {
            sum += taps[t] * x[l - T + 1 + t];
        }
        y[l] = sum;
    }
    int l = head;
    for (; l + STEP <= L; l += STEP) {
        const float* in = x + l - T + 1;
        /* A constant number of taps is unrolled, and the sums never leave the registers. */
        switch (T) {
            case 3: span(in, taps, y + l, 3, STEP); break;
            case 4: span(in, taps, y + l, 4, STEP); break;
            default: span(in, taps, y + l, T, STEP);
        }
    }
    if (l < L) {
        span(x + l - T + 1, taps, y + l, T, L - l);
    }
}

void conv1d(const float* restrict x, const float* restrict w, float* restrict y, int G, int C, int L, int T) {
#pragma omp parallel for num_threads(THREADS) collapse(2) schedule(static) if ((size_t)G * C * L > 32768)
    for (int g = 0; g < G; g++) {
        for (int c = 0; c < C; c++) {
            size_t at = ((size_t)g * C + c) * L;
            channel(x + at, w + (size_t)c * T, y + at, L, T);
        }
    }
}
