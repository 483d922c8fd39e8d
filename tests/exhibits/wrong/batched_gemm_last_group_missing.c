/* kforecast 1
task = "batched_gemm"
[[launch]]
entry = "batched_gemm"
args = ["A", "B", "C", "G", "M", "N", "K"]
*/
/* expect: incorrect: the last group is never computed. */
#include <stddef.h>

void batched_gemm(const float* A, const float* B, float* C, int G, int M, int N, int K) {
    for (int g = 0; g < G - 1; g++) {
        const float* a = A + (size_t)g * M * K;
        const float* b = B + (size_t)g * K * N;
        float* c = C + (size_t)g * M * N;
        for (int m = 0; m < M; m++) {
            for (int n = 0; n < N; n++) {
                float sum = 0.0f;
                for (int k = 0; k < K; k++) {
                    sum += a[(size_t)m * K + k] * b[(size_t)k * N + n];
                }
                c[(size_t)m * N + n] = sum;
            }
        }
    }
}
