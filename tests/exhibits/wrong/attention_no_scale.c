/* kforecast 1
task = "attention"
[[launch]]
entry = "attention"
args = ["q", "k", "v", "o", "H", "S", "D"]
*/
/* expect: incorrect: the scores are not divided by sqrt(D). */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

void attention(const float* q, const float* k, const float* v, float* o, int H, int S, int D) {
    float* weight = malloc((size_t)S * sizeof *weight);
    float scale = 1.0f;
    for (int h = 0; h < H; h++) {
        const float* keys = k + (size_t)h * S * D;
        const float* values = v + (size_t)h * S * D;
        for (int i = 0; i < S; i++) {
            const float* query = q + ((size_t)h * S + i) * D;
            float* out = o + ((size_t)h * S + i) * D;
            float top = -INFINITY;
            for (int j = 0; j < S; j++) {
                float dot = 0.0f;
                for (int d = 0; d < D; d++) {
                    dot += query[d] * keys[(size_t)j * D + d];
                }
                weight[j] = dot * scale;
                if (weight[j] > top) top = weight[j];
            }
            double sum = 0.0;
            for (int j = 0; j < S; j++) {
                weight[j] = expf(weight[j] - top);
                sum += weight[j];
            }
            for (int d = 0; d < D; d++) {
                out[d] = 0.0f;
            }
            for (int j = 0; j < S; j++) {
                float share = (float)(weight[j] / sum);
                for (int d = 0; d < D; d++) {
                    out[d] += share * values[(size_t)j * D + d];
                }
            }
        }
    }
    free(weight);
}
