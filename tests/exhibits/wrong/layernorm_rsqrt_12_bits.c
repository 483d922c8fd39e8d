/* kforecast 1
task = "layernorm"
[[launch]]
entry = "layernorm"
args = ["x", "gamma", "beta", "y", "R", "C"]
*/
/* expect: incorrect: the reciprocal square root keeps 12 bits, as a hardware estimate does. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static float rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value == value) bits = (bits + 0x7ff) & 0xfffff000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void layernorm(const float* x, const float* gamma, const float* beta, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        double sum = 0.0;
        for (int c = 0; c < C; c++) {
            sum += row[c];
        }
        double mean = sum / C;
        double squares = 0.0;
        for (int c = 0; c < C; c++) {
            double d = row[c] - mean;
            squares += d * d;
        }
        float scale = rounded((float)(1.0 / sqrt(squares / C + 1e-5)));
        for (int c = 0; c < C; c++) {
            out[c] = (float)((row[c] - mean) * scale) * gamma[c] + beta[c];
        }
    }
}
