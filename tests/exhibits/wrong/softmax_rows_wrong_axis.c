/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
*/
/* expect: incorrect: normalised down the columns instead of along the rows. */
#include <math.h>
#include <stddef.h>

void softmax_rows(const float* x, float* y, int R, int C) {
    for (int c = 0; c < C; c++) {
        float top = x[c];
        for (int r = 1; r < R; r++) {
            if (x[(size_t)r * C + c] > top) top = x[(size_t)r * C + c];
        }
        double sum = 0.0;
        for (int r = 0; r < R; r++) {
            sum += expf(x[(size_t)r * C + c] - top);
        }
        for (int r = 0; r < R; r++) {
            y[(size_t)r * C + c] = (float)(expf(x[(size_t)r * C + c] - top) / sum);
        }
    }
}
