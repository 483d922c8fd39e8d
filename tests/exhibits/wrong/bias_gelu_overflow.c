/* kforecast 1
task = "bias_gelu"
[[launch]]
entry = "bias_gelu"
args = ["x", "b", "y", "R", "C"]
*/
/* expect: incorrect: tanh written as (e - 1) / (e + 1) with e = exp(2u): inf / inf for large inputs. */
#include <math.h>
#include <stddef.h>

void bias_gelu(const float* x, const float* b, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        for (int c = 0; c < C; c++) {
            float v = row[c] + b[c];
            float u = 0.7978845608028654f * (v + 0.044715f * v * v * v);
            float e = expf(2.0f * u);
            out[c] = 0.5f * v * (1.0f + (e - 1.0f) / (e + 1.0f));
        }
    }
}
