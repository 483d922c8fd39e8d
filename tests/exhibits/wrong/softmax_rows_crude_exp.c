/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
*/
/* expect: incorrect: exp by shifting the argument into the exponent bits: off by up to 3 percent. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static float crude_exp(float x) {
    if (x < -87.0f) return 0.0f;
    uint32_t bits = (uint32_t)(x * 12102203.0f + 1064866805.0f);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void softmax_rows(const float* x, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        float top = row[0];
        for (int c = 1; c < C; c++) {
            if (row[c] > top) top = row[c];
        }
        double sum = 0.0;
        for (int c = 0; c < C; c++) {
            out[c] = crude_exp(row[c] - top);
            sum += out[c];
        }
        float scale = (float)(1.0 / sum);
        for (int c = 0; c < C; c++) {
            out[c] *= scale;
        }
    }
}
