/* kforecast 1
task = "gemv"
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
*/
/* expect: incorrect: both operands are rounded to tf32. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static float rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value == value) bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void gemv(const float* A, const float* x, float* y, int M, int K) {
    for (int m = 0; m < M; m++) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++) {
            sum += rounded(A[(size_t)m * K + k]) * rounded(x[k]);
        }
        y[m] = sum;
    }
}
