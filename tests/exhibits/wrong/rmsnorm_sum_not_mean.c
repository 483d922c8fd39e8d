/* kforecast 1
task = "rmsnorm"
[[launch]]
entry = "rmsnorm"
args = ["x", "w", "y", "R", "C"]
*/
/* expect: incorrect: divides by the root of the sum of squares, not of their mean. */
#include <math.h>
#include <stddef.h>

void rmsnorm(const float* x, const float* w, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        double squares = 0.0;
        for (int c = 0; c < C; c++) {
            squares += (double)row[c] * row[c];
        }
        float scale = (float)(1.0 / sqrt(squares + 1e-6));
        for (int c = 0; c < C; c++) {
            out[c] = row[c] * scale * w[c];
        }
    }
}
