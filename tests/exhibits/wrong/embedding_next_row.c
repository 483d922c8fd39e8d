/* kforecast 1
task = "embedding"
[[launch]]
entry = "embedding"
args = ["table", "idx", "y", "T", "D", "V"]
*/
/* expect: incorrect: reads the row after the one asked for. */
#include <stddef.h>

void embedding(const float* table, const int* idx, float* y, int T, int D, int V) {
    for (int t = 0; t < T; t++) {
        const float* row = table + (size_t)((idx[t] + 1) % V) * D;
        for (int d = 0; d < D; d++) {
            y[(size_t)t * D + d] = row[d];
        }
    }
}
