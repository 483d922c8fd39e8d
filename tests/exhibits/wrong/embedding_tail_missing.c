/* kforecast 1
task = "embedding"
[[launch]]
entry = "embedding"
args = ["table", "idx", "y", "T", "D"]
*/
/* expect: incorrect: the D % 8 columns at the end are never copied. */
#include <stddef.h>

void embedding(const float* table, const int* idx, float* y, int T, int D) {
    for (int t = 0; t < T; t++) {
        const float* row = table + (size_t)idx[t] * D;
        for (int d = 0; d < D / 8 * 8; d++) {
            y[(size_t)t * D + d] = row[d];
        }
    }
}
