/* kforecast 1
task = "gemm_f32"
[[launch]]
entry = "gemm_f32"
args = ["A", "B", "C", "M", "N", "K"]
*/
/* expect: incorrect: the N % 8 columns at the right are never written. */
#include <stddef.h>

void gemm_f32(const float* A, const float* B, float* C, int M, int N, int K) {
    for (int m = 0; m < M; m++) {
        float* row = C + (size_t)m * N;
        for (int n = 0; n < N / 8 * 8; n++) {
            row[n] = 0.0f;
        }
        for (int k = 0; k < K; k++) {
            float a = A[(size_t)m * K + k];
            const float* b = B + (size_t)k * N;
            for (int n = 0; n < N / 8 * 8; n++) {
                row[n] += a * b[n];
            }
        }
    }
}
