/* kforecast 1
task = "gemm_f32"
options = ["-fopenmp"]
[[launch]]
entry = "gemm_f32"
args = ["A", "B", "C", "M", "N", "K"]
[tune]
THREADS = [1, 2, 4]
MR = [6, 4, 8, 12]
PANELS = [8, 4, 16]
KC = [256, 128, 512]
*/
#include <stddef.h>
#include <string.h>

#if defined(__AVX512F__)
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
#else
typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));
#endif
#define LANES ((int)(sizeof(vec) / sizeof(float)))

/* MR x NR sums live in registers; MC x KC of A stays in L1 and L2, KC x NC of B in L2 and L3. */
#define NR (2 * LANES)
#define MC (MR * PANELS)
#define NC 512

static float packed_b[KC * NC] __attribute__((aligned(64)));

static int least(int a, int b) { return a < b ? a : b; }

/* Column-major slices of MR rows, short slices filled up with zeros. */
static void pack_a(const float* a, size_t stride, int rows, int depth, float* to) {
    for (int m = 0; m < rows; m += MR) {
        int have = least(MR, rows - m);
        for (int k = 0; k < depth; k++) {
            for (int i = 0; i < MR; i++) {
                to[k * MR + i] = i < have ? a[(m + i) * stride + k] : 0.0f;
            }
        }
        to += (size_t)depth * MR;
    }
}

/* One slice of NR columns. */
static void pack_b(const float* b, size_t stride, int columns, int depth, float* to) {
    for (int k = 0; k < depth; k++) {
        memcpy(to, b + k * stride, (size_t)columns * sizeof *to);
        memset(to + columns, 0, (size_t)(NR - columns) * sizeof *to);
        to += NR;
    }
}

static void tile(const float* restrict a, const float* restrict b, int depth, float* restrict c, size_t stride, int rows,
                 int columns, int first) {
    vec sum[MR][2];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
        sum[i][0] = sum[i][1] = (vec){0};
    }
    for (int k = 0; k < depth; k++) {
        vec b0 = *(const vec*)b, b1 = *(const vec*)(b + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i] * b0;
            sum[i][1] += a[i] * b1;
        }
        a += MR;
        b += NR;
    }
    if (rows == MR && columns == NR) {
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            vec* to = (vec*)(c + i * stride);
            if (!first) {
                sum[i][0] += to[0];
                sum[i][1] += to[1];
            }
            to[0] = sum[i][0];
            to[1] = sum[i][1];
        }
        return;
    }
    float edge[MR * NR];
    memcpy(edge, sum, sizeof edge);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            c[i * stride + j] = edge[i * NR + j] + (first ? 0.0f : c[i * stride + j]);
        }
    }
}

void gemm_f32(const float* restrict A, const float* restrict B, float* restrict C, int M, int N, int K) {
#pragma omp parallel num_threads(THREADS) if ((double)M * N * K > 262144)
    for (int n = 0; n < N; n += NC) {
        int width = least(NC, N - n);
        for (int k = 0; k < K; k += KC) {
            int depth = least(KC, K - k);
#pragma omp for schedule(static)
            for (int j = 0; j < width; j += NR) {
                pack_b(B + (size_t)k * N + n + j, N, least(NR, width - j), depth, packed_b + (size_t)j * depth);
            }
#pragma omp for schedule(dynamic)
            for (int m = 0; m < M; m += MC) {
                float packed_a[MC * KC] __attribute__((aligned(64)));
                int height = least(MC, M - m);
                pack_a(A + (size_t)m * K + k, K, height, depth, packed_a);
                for (int j = 0; j < width; j += NR) {
                    for (int i = 0; i < height; i += MR) {
                        tile(packed_a + (size_t)i * depth, packed_b + (size_t)j * depth, depth,
                             C + (size_t)(m + i) * N + n + j, N, least(MR, height - i), least(NR, width - j), k == 0);
                    }
                }
            }
        }
    }
}
