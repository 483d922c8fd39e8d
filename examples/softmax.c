/* kforecast 1
task = "softmax_rows"            # built in: x[R, C] f32 -> y[R, C] f32; gives the names x, y, R, C
[[launch]]
entry = "softmax_rows"           # the function below
args  = ["x", "y", "R", "C"]     # in the order of its parameters
*/
/* The idea: the seed kernel calls expf once per element, which no compiler vectorises. This one computes e^t with a
 * polynomial in straight-line code, and keeps LANES running maxima and sums, so that every loop fills vector registers.
 * Try it:  kforecast measure examples/softmax.c                                                                     */
#include <stddef.h>
#include <string.h>

enum { LANES = 16 };

/* e^t for t <= 0: t = k ln 2 + r with |r| <= ln 2 / 2, then 2^k times the Taylor polynomial of e^r. NaN stays NaN. */
static inline float exp_nonpositive(float t) {
    t = t < -87.0f ? -87.0f : t;
    float k = t * 1.44269504f + 12582912.0f - 12582912.0f; /* adding 1.5 * 2^23 rounds to an integer */
    float r = t - k * 0.693359375f + k * 2.12194440e-4f;
    float p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int bits = ((int)k + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

void softmax_rows(const float* x, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        int whole = C - C % LANES;

        float top[LANES], sum[LANES];
        for (int j = 0; j < LANES; j++) top[j] = row[0];
        for (int c = 0; c < whole; c += LANES)
            for (int j = 0; j < LANES; j++) top[j] = row[c + j] > top[j] ? row[c + j] : top[j];
        float highest = top[0];
        for (int j = 1; j < LANES; j++) highest = top[j] > highest ? top[j] : highest;
        for (int c = whole; c < C; c++) highest = row[c] > highest ? row[c] : highest;

        for (int j = 0; j < LANES; j++) sum[j] = 0.0f;
        for (int c = 0; c < whole; c += LANES)
            for (int j = 0; j < LANES; j++) {
                out[c + j] = exp_nonpositive(row[c + j] - highest);
                sum[j] += out[c + j];
            }
        float total = 0.0f;
        for (int j = 0; j < LANES; j++) total += sum[j];
        for (int c = whole; c < C; c++) total += out[c] = exp_nonpositive(row[c] - highest);

        float scale = 1.0f / total;
        for (int c = 0; c < C; c++) out[c] *= scale;
    }
}
