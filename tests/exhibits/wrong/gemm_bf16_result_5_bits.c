/* kforecast 1
task = "gemm_bf16"
[[launch]]
entry = "gemm_bf16"
args = ["A", "B", "C", "M", "N", "K"]
*/
/* expect: incorrect: the result keeps 5 bits of mantissa instead of 7. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static float from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Round to nearest, ties to even; a NaN stays a NaN. */
static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* C = A * B^T, sums in float. */
void gemm_bf16(const uint16_t* A, const uint16_t* B, uint16_t* C, int M, int N, int K) {
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++) {
                sum += from_bf16(A[(size_t)m * K + k]) * from_bf16(B[(size_t)n * K + k]);
            }
            C[(size_t)m * N + n] = to_bf16(sum) & 0xfffc;
        }
    }
}
