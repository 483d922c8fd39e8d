/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
*/
/* expect: incorrect: the sum of exponentials is kept in bf16. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static float rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value == value) bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
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
        float sum = 0.0f;
        for (int c = 0; c < C; c++) {
            out[c] = expf(row[c] - top);
            sum = rounded(sum + out[c]);
        }
        float scale = (float)(1.0 / sum);
        for (int c = 0; c < C; c++) {
            out[c] *= scale;
        }
    }
}
