/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
*/
/* expect: incorrect: the first element is subtracted instead of the maximum: overflows further down the row. */
#include <math.h>
#include <stddef.h>

void softmax_rows(const float* x, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        float top = row[0];
        double sum = 0.0;
        for (int c = 0; c < C; c++) {
            out[c] = expf(row[c] - top);
            sum += out[c];
        }
        float scale = (float)(1.0 / sum);
        for (int c = 0; c < C; c++) {
            out[c] *= scale;
        }
    }
}
