/* kforecast 1
task = "gemv"
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
*/
/* expect: incorrect: the K % 8 products at the end are left out. */
#include <stddef.h>

void gemv(const float* A, const float* x, float* y, int M, int K) {
    for (int m = 0; m < M; m++) {
        float sum = 0.0f;
        for (int k = 0; k < K / 8 * 8; k++) {
            sum += A[(size_t)m * K + k] * x[k];
        }
        y[m] = sum;
    }
}
