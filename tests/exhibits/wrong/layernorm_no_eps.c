/* kforecast 1
task = "layernorm"
[[launch]]
entry = "layernorm"
args = ["x", "gamma", "beta", "y", "R", "C"]
*/
/* expect: incorrect: eps is missing: constant rows divide by zero, tiny ones come out as large as any. */
#include <math.h>
#include <stddef.h>

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
        double scale = 1.0 / sqrt(squares / C);
        for (int c = 0; c < C; c++) {
            out[c] = (float)((row[c] - mean) * scale) * gamma[c] + beta[c];
        }
    }
}
