/* kforecast 1
task = "embedding"
[[launch]]
entry = "embedding"
args = ["table", "idx", "y", "T", "D"]
*/
/* expect: incorrect: the rows pass through bf16 on their way. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static float rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value == value) bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void embedding(const float* table, const int* idx, float* y, int T, int D) {
    for (int t = 0; t < T; t++) {
        const float* row = table + (size_t)idx[t] * D;
        for (int d = 0; d < D; d++) {
            y[(size_t)t * D + d] = rounded(row[d]);
        }
    }
}
