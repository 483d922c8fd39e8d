/* kforecast 1
task = "gemv"
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
*/
#include <stddef.h>

void gemv(const float* A, const float* x, float* y, int M, int K) {
    for (int m = 0; m < M; m++) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++) {
            sum += A[(size_t)m * K + k] * x[k];
        }
        y[m] = sum;
    }
}
