/* kforecast 1
task = "batched_gemm"
options = ["-fopenmp"]
[[launch]]
entry = "batched_gemm"
args = ["A", "B", "C", "G", "M", "N", "K"]
[tune]
THREADS = [1, 2, 4]
MR = [6, 4, 8]
ROWS = [64, 32, 128]
*/
#include <stddef.h>

#if defined(__AVX512F__)
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
#else
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
#endif
#define LANES ((int)(sizeof(vec) / sizeof(float)))

/* rows x (vecs * LANES) sums in registers. The matrices are small enough for L2, so nothing is packed. */
static inline __attribute__((always_inline)) void tile(const float* restrict a, const float* restrict b,
                                                       float* restrict c, int N, int K, int rows, int vecs) {
    vec sum[MR][2];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        sum[i][0] = sum[i][1] = (vec){0};
    }
    for (int k = 0; k < K; k++) {
        const float* line = b + (size_t)k * N;
        vec b0 = *(const vec*)line;
        vec b1 = vecs > 1 ? *(const vec*)(line + LANES) : (vec){0};
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            sum[i][0] += a[(size_t)i * K + k] * b0;
            if (vecs > 1) sum[i][1] += a[(size_t)i * K + k] * b1;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        vec* to = (vec*)(c + (size_t)i * N);
        to[0] = sum[i][0];
        if (vecs > 1) to[1] = sum[i][1];
    }
}

static inline __attribute__((always_inline)) void band(const float* a, const float* b, float* c, int N, int K, int rows) {
    int n = 0;
    for (; n + 2 * LANES <= N; n += 2 * LANES) {
        tile(a, b + n, c + n, N, K, rows, 2);
    }
    for (; n + LANES <= N; n += LANES) {
        tile(a, b + n, c + n, N, K, rows, 1);
    }
    for (; n < N; n++) {
        for (int i = 0; i < rows; i++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++) {
                sum += a[(size_t)i * K + k] * b[(size_t)k * N + n];
            }
            c[(size_t)i * N + n] = sum;
        }
    }
}

void batched_gemm(const float* restrict A, const float* restrict B, float* restrict C, int G, int M, int N, int K) {
    int blocks = (M + ROWS - 1) / ROWS;
#pragma omp parallel for num_threads(THREADS) collapse(2) schedule(static) if ((double)G * M * N * K > 262144)
    for (int g = 0; g < G; g++) {
        for (int block = 0; block < blocks; block++) {
            const float* a = A + (size_t)g * M * K;
            const float* b = B + (size_t)g * K * N;
            float* c = C + (size_t)g * M * N;
            int m = block * ROWS, end = M - m < ROWS ? M : m + ROWS;
            for (; m + MR <= end; m += MR) {
                band(a + (size_t)m * K, b, c + (size_t)m * N, N, K, MR);
            }
            for (; m < end; m++) {
                band(a + (size_t)m * K, b, c + (size_t)m * N, N, K, 1);
            }
        }
    }
}
