/* kforecast 1
task = "conv1d"
[[launch]]
entry = "conv1d"
args = ["x", "w", "y", "G", "C", "L", "T"]
*/
/* expect: incorrect: the taps run backwards. */
#include <stddef.h>

/* Depthwise and causal: tap T-1 meets the current position, x is 0 left of the start. */
void conv1d(const float* x, const float* w, float* y, int G, int C, int L, int T) {
    for (int g = 0; g < G; g++) {
        for (int c = 0; c < C; c++) {
            const float* in = x + ((size_t)g * C + c) * L;
            const float* taps = w + (size_t)c * T;
            float* out = y + ((size_t)g * C + c) * L;
            for (int l = 0; l < L; l++) {
                float sum = 0.0f;
                for (int t = 0; t < T; t++) {
                    int from = l - T + 1 + t;
                    if (from >= 0) sum += taps[T - 1 - t] * in[from];
                }
                out[l] = sum;
            }
        }
    }
}
