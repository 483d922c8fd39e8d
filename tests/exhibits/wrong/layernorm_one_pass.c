/* kforecast 1
task = "layernorm"
[[launch]]
entry = "layernorm"
args = ["x", "gamma", "beta", "y", "R", "C"]
*/
/* expect: incorrect: variance as E[x^2] - E[x]^2 in float: cancels where the mean is large. */
#include <math.h>
#include <stddef.h>

void layernorm(const float* x, const float* gamma, const float* beta, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        float sum = 0.0f, squares = 0.0f;
        for (int c = 0; c < C; c++) {
            sum += row[c];
            squares += row[c] * row[c];
        }
        float mean = sum / C;
        float scale = 1.0f / sqrtf(squares / C - mean * mean + 1e-5f);
        for (int c = 0; c < C; c++) {
            out[c] = (row[c] - mean) * scale * gamma[c] + beta[c];
        }
    }
}
