/* kforecast 1
task = "bias_gelu"
[[launch]]
entry = "bias_gelu"
args = ["x", "b", "y", "R", "C"]
*/
/* expect: incorrect: the sigmoid approximation x / (1 + exp(-1.702 x)). */
#include <math.h>
#include <stddef.h>

void bias_gelu(const float* x, const float* b, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        for (int c = 0; c < C; c++) {
            float v = row[c] + b[c];
            out[c] = v / (1.0f + expf(-1.702f * v));
        }
    }
}
