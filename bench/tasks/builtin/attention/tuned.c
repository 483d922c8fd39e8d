/* kforecast 1
task = "attention"
options = ["-fopenmp"]
[[launch]]
entry = "attention"
args = ["q", "k", "v", "o", "H", "S", "D"]
[tune]
THREADS = [1, 2, 4]
BQ = [96, 48, 192]
BK = [64, 128]
MR = [6, 4, 8]
when = ["BQ % MR == 0"]
*/
#include <math.h>
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

/* exp to 1 ulp, without a branch so that loops over it vectorise: x = n ln 2 + f, |f| <= ln 2 / 2, a Taylor
   polynomial in f, n added to the exponent. Below -87.3 it is 0, above 88 infinity; a NaN stays a NaN. */
static inline float fast_exp(float x) {
    float t = x < -87.3f ? -87.3f : x;
    t = t > 88.0f ? 88.0f : t;
    float rounded = t * 1.44269504f + 12582912.0f; /* 1.5 * 2^23 leaves round(t / ln 2) in the low bits */
    float n = rounded - 12582912.0f;
    float f = t - n * 0.693359375f - n * -2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * f + 1.0f / 720.0f;
    p = p * f + 1.0f / 120.0f;
    p = p * f + 1.0f / 24.0f;
    p = p * f + 1.0f / 6.0f;
    p = p * f + 0.5f;
    p = p * f * f + f + 1.0f;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    bits = (bits + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    float e = p * power;
    e = x < -87.3f ? 0.0f : e;
    return x > 88.0f ? INFINITY : e;
}

static int least(int a, int b) { return a < b ? a : b; }

/* c += a b for MR rows and 2 * LANES columns; the sums stay in registers. */
static inline void tile(const float* restrict a, int a_stride, const float* restrict b, int b_stride, int depth,
                        float* restrict c, int c_stride) {
    vec sum[MR][2];
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
        const vec* from = (const vec*)(c + (size_t)i * c_stride);
        sum[i][0] = from[0];
        sum[i][1] = from[1];
    }
    for (int k = 0; k < depth; k++) {
        vec b0 = *(const vec*)(b + (size_t)k * b_stride), b1 = *(const vec*)(b + (size_t)k * b_stride + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[(size_t)i * a_stride + k] * b0;
            sum[i][1] += a[(size_t)i * a_stride + k] * b1;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
        vec* to = (vec*)(c + (size_t)i * c_stride);
        to[0] = sum[i][0];
        to[1] = sum[i][1];
    }
}

static void add_product(const float* a, int a_stride, const float* b, int b_stride, int depth, float* c, int c_stride,
                        int rows, int columns) {
    for (int n = 0; n < columns; n += 2 * LANES) {
        for (int m = 0; m < rows; m += MR) {
            tile(a + (size_t)m * a_stride, a_stride, b + n, b_stride, depth, c + (size_t)m * c_stride + n, c_stride);
        }
    }
}

/* Turns scores into weights about the row's running maximum, and rescales what was summed about an older one. */
static void online_softmax(float* score, int keys, float* top, double* sum, float* out, int width) {
    float peak = *top;
#pragma omp simd reduction(max : peak)
    for (int j = 0; j < keys; j++) {
        peak = score[j] > peak ? score[j] : peak;
    }
    if (peak > *top) {
        float old = fast_exp(*top - peak);
        *sum *= old;
#pragma omp simd
        for (int d = 0; d < width; d++) {
            out[d] *= old;
        }
        *top = peak;
    }
    float part = 0.0f, shift = peak == -INFINITY ? 0.0f : peak;
#pragma omp simd reduction(+ : part)
    for (int j = 0; j < keys; j++) {
        score[j] = fast_exp(score[j] - shift);
        part += score[j];
    }
    *sum += part;
}

/* BQ queries of one head against all its keys, BK at a time. width: D filled up to whole vectors. */
static void block(const float* q, const float* k, const float* v, float* o, int queries, int S, int D, int width,
                  float* scratch) {
    float* query = scratch;                        /* BQ x D, scaled */
    float* keys = query + (size_t)BQ * D;          /* D x BK */
    float* values = keys + (size_t)D * BK;         /* BK x width */
    float* weight = values + (size_t)BK * width;   /* BQ x BK */
    float* out = weight + (size_t)BQ * BK;         /* BQ x width */
    float top[BQ];
    double sum[BQ];
    float scale = 1.0f / sqrtf((float)D);
    int rows = (queries + MR - 1) / MR * MR;
    memset(query, 0, (size_t)BQ * D * sizeof *query);
    memset(values, 0, (size_t)BK * width * sizeof *values);
    memset(out, 0, (size_t)BQ * width * sizeof *out);
    for (int i = 0; i < queries * D; i++) {
        query[i] = q[i] * scale;
    }
    for (int i = 0; i < rows; i++) {
        top[i] = -INFINITY;
        sum[i] = 0.0;
    }
    for (int start = 0; start < S; start += BK) {
        int have = least(BK, S - start);
        if (have < BK) memset(keys, 0, (size_t)D * BK * sizeof *keys);
        for (int j = 0; j < have; j++) {
            for (int d = 0; d < D; d++) {
                keys[(size_t)d * BK + j] = k[(size_t)(start + j) * D + d];
            }
            memcpy(values + (size_t)j * width, v + (size_t)(start + j) * D, (size_t)D * sizeof *v);
        }
        memset(weight, 0, (size_t)BQ * BK * sizeof *weight);
        add_product(query, D, keys, BK, D, weight, BK, rows, BK);
        for (int i = 0; i < rows; i++) {
            online_softmax(weight + (size_t)i * BK, have, top + i, sum + i, out + (size_t)i * width, width);
        }
        add_product(weight, BK, values, width, have, out, width, rows, width);
    }
    for (int i = 0; i < queries; i++) {
        float share = (float)(1.0 / sum[i]);
        for (int d = 0; d < D; d++) {
            o[(size_t)i * D + d] = out[(size_t)i * width + d] * share;
        }
    }
}

void attention(const float* restrict q, const float* restrict k, const float* restrict v, float* restrict o, int H, int S,
               int D) {
    int width = (D + 2 * LANES - 1) / (2 * LANES) * (2 * LANES);
    size_t floats = (size_t)BQ * D + (size_t)D * BK + (size_t)BK * width + (size_t)BQ * BK + (size_t)BQ * width;
#pragma omp parallel num_threads(THREADS) if ((double)H * S * S * D > 131072)
    {
        float* scratch = malloc(floats * sizeof *scratch);
#pragma omp for collapse(2) schedule(dynamic)
        for (int h = 0; h < H; h++) {
            for (int i = 0; i < S; i += BQ) {
                size_t head = (size_t)h * S * D, at = head + (size_t)i * D;
                block(q + at, k + head, v + head, o + at, least(BQ, S - i), S, D, width, scratch);
            }
        }
        free(scratch);
    }
}
