/* kforecast 1
task = "softmax_rows"
options = ["-fopenmp"]
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
[tune]
THREADS = [1, 2, 4]
CHUNK = [1024, 256, 4096]
*/
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

void softmax_rows(const float* restrict x, float* restrict y, int R, int C) {
#pragma omp parallel for num_threads(THREADS) schedule(static) if ((size_t)R * C > 16384)
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        float top = row[0];
#pragma omp simd reduction(max : top)
        for (int c = 0; c < C; c++) {
            top = row[c] > top ? row[c] : top;
        }
        /* Float lanes inside a chunk, double between chunks: long rows lose no digits. */
        double sum = 0.0;
        for (int start = 0; start < C; start += CHUNK) {
            int end = C - start < CHUNK ? C : start + CHUNK;
            float part = 0.0f;
#pragma omp simd reduction(+ : part)
            for (int c = start; c < end; c++) {
                float e = fast_exp(row[c] - top);
                out[c] = e;
                part += e;
            }
            sum += part;
        }
        float scale = (float)(1.0 / sum);
#pragma omp simd
        for (int c = 0; c < C; c++) {
            out[c] *= scale;
        }
    }
}
