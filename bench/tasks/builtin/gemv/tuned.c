/* kforecast 1
task = "gemv"
options = ["-fopenmp"]
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
[tune]
THREADS = [1, 2, 4]
ROWS = [4, 1, 2, 8]
*/
#include <stddef.h>

/* Lanes are added up every CHUNK elements, so a long row rounds like a short one. */
#define CHUNK 4096

#if defined(__AVX512F__)
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
#else
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
#endif
#define LANES ((int)(sizeof(vec) / sizeof(float)))

static float add_lanes(vec v) {
    float sum = 0.0f;
    for (int i = 0; i < LANES; i++) {
        sum += v[i];
    }
    return sum;
}

/* `rows` rows at once: every load of x serves all of them, and their sums hide each other's latency. */
static inline __attribute__((always_inline)) void dot_rows(const float* A, const float* x, float* y, int rows, int K) {
    float total[8] = {0};
    for (int start = 0; start < K; start += CHUNK) {
        int end = K - start < CHUNK ? K : start + CHUNK;
        vec even[8] = {0}, odd[8] = {0};
        int k = start;
        for (; k + 2 * LANES <= end; k += 2 * LANES) {
            vec x0 = *(const vec*)(x + k), x1 = *(const vec*)(x + k + LANES);
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++) {
                const float* row = A + (size_t)i * K + k;
                even[i] += *(const vec*)row * x0;
                odd[i] += *(const vec*)(row + LANES) * x1;
            }
        }
        for (int i = 0; i < rows; i++) {
            float sum = add_lanes(even[i] + odd[i]);
            for (int j = k; j < end; j++) {
                sum += A[(size_t)i * K + j] * x[j];
            }
            total[i] += sum;
        }
    }
    for (int i = 0; i < rows; i++) {
        y[i] = total[i];
    }
}

void gemv(const float* restrict A, const float* restrict x, float* restrict y, int M, int K) {
    int whole = M - M % ROWS;
#pragma omp parallel for num_threads(THREADS) schedule(static) if ((size_t)M * K > 65536)
    for (int m = 0; m < whole; m += ROWS) {
        dot_rows(A + (size_t)m * K, x, y + m, ROWS, K);
    }
    for (int m = whole; m < M; m++) {
        dot_rows(A + (size_t)m * K, x, y + m, 1, K);
    }
}
