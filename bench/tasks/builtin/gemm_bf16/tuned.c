/* kforecast 1
task = "gemm_bf16"
options = ["-fopenmp"]
[[launch]]
entry = "gemm_bf16"
args = ["A", "B", "C", "M", "N", "K"]
[tune]
THREADS = [1, 2, 4]
MR = [6, 4, 8, 12]
PANELS = [4, 2, 8]
*/
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
#else
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
#endif
#define LANES ((int)(sizeof(vec) / sizeof(float)))

#define NR (2 * LANES)
#define MC (MR * PANELS)

static int least(int a, int b) { return a < b ? a : b; }

static float from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Round to nearest, ties to even; a NaN stays a NaN. */
static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t rounded = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    return value != value ? (uint16_t)(bits >> 16 | 0x40) : rounded;
}

/* `width` rows of K elements become floats, transposed: K x width, missing rows zero. */
static inline __attribute__((always_inline)) void pack(const uint16_t* from, int rows, int K, float* to, int width) {
    if (rows < width) memset(to, 0, (size_t)K * width * sizeof *to);
    for (int i = 0; i < rows; i++) {
        for (int k = 0; k < K; k++) {
            to[(size_t)k * width + i] = from_bf16(from[(size_t)i * K + k]);
        }
    }
}

/* MR x NR sums stay in registers over the whole of K. */
static void tile(const float* restrict a, const float* restrict b, int K, uint16_t* restrict c, size_t stride, int rows,
                 int columns) {
    vec sum[MR][2];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
        sum[i][0] = sum[i][1] = (vec){0};
    }
    for (int k = 0; k < K; k++) {
        vec b0 = *(const vec*)b, b1 = *(const vec*)(b + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i] * b0;
            sum[i][1] += a[i] * b1;
        }
        a += MR;
        b += NR;
    }
    float edge[MR][NR];
    memcpy(edge, sum, sizeof edge);
    for (int i = 0; i < rows; i++) {
        uint16_t line[NR];
        for (int j = 0; j < NR; j++) {
            line[j] = to_bf16(edge[i][j]);
        }
        memcpy(c + i * stride, line, (size_t)columns * sizeof *c);
    }
}

/* C = A * B^T. B is widened to float once, A a block of MC rows at a time by the thread that needs it. */
void gemm_bf16(const uint16_t* restrict A, const uint16_t* restrict B, uint16_t* restrict C, int M, int N, int K) {
    size_t slices = ((size_t)N + NR - 1) / NR;
    float* packed_b = malloc(slices * NR * K * sizeof *packed_b);
#pragma omp parallel num_threads(THREADS) if ((double)M * N * K > 262144)
    {
        float* packed_a = malloc((size_t)MC * K * sizeof *packed_a);
#pragma omp for schedule(static)
        for (int n = 0; n < N; n += NR) {
            pack(B + (size_t)n * K, least(NR, N - n), K, packed_b + (size_t)n * K, NR);
        }
#pragma omp for schedule(dynamic)
        for (int m = 0; m < M; m += MC) {
            int height = least(MC, M - m);
            for (int i = 0; i < height; i += MR) {
                pack(A + (size_t)(m + i) * K, least(MR, height - i), K, packed_a + (size_t)i * K, MR);
            }
            for (int n = 0; n < N; n += NR) {
                for (int i = 0; i < height; i += MR) {
                    tile(packed_a + (size_t)i * K, packed_b + (size_t)n * K, K, C + (size_t)(m + i) * N + n, N,
                         least(MR, height - i), least(NR, N - n));
                }
            }
        }
        free(packed_a);
    }
    free(packed_b);
}
