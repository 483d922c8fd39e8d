/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args  = ["x", "y", "R", "C"]
*/
/* Looks right, and is right on small numbers: it skips the pass that finds the row's maximum. e^x overflows for x > 88,
 * and one checked case of the task has such inputs. Try it:  kforecast measure examples/softmax_wrong.c             */
#include <math.h>
#include <stddef.h>

void softmax_rows(const float* x, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        float sum = 0.0f;
        for (int c = 0; c < C; c++) sum += out[c] = expf(row[c]);
        for (int c = 0; c < C; c++) out[c] /= sum;
    }
}
