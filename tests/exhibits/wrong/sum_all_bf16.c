/* kforecast 1
task = "sum_all"
[[launch]]
entry = "sum_all"
args = ["x", "y", "N"]
*/
/* expect: incorrect: the running sum is kept in bf16. */
#include <stdint.h>
#include <string.h>

static float rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value == value) bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void sum_all(const float* x, float* y, int N) {
    float sum = 0.0f;
    for (int i = 0; i < N; i++) {
        sum = rounded(sum + x[i]);
    }
    y[0] = sum;
}
