/* kforecast 1
task = "gemm_f32"
[[launch]]
entry = "gemm_f32"
args = ["A", "B", "C", "M", "N", "K"]
*/
/* expect: incorrect: both operands are rounded to bf16. */
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

void gemm_f32(const float* A, const float* B, float* C, int M, int N, int K) {
    for (int m = 0; m < M; m++) {
        float* row = C + (size_t)m * N;
        for (int n = 0; n < N; n++) {
            row[n] = 0.0f;
        }
        for (int k = 0; k < K; k++) {
            float a = rounded(A[(size_t)m * K + k]);
            const float* b = B + (size_t)k * N;
            for (int n = 0; n < N; n++) {
                row[n] += a * rounded(b[n]);
            }
        }
    }
}
