/* kforecast 1
task = "sum_all"
options = ["-fopenmp"]
[[launch]]
entry = "sum_all"
args = ["x", "y", "N"]
[tune]
THREADS = [1, 2, 4]
CHUNK = [1024, 256, 4096]
*/
#include <stddef.h>

/* Parts are cut by N alone and added in order, so the result does not depend on the number of threads. */
#define PARTS 64

void sum_all(const float* restrict x, float* restrict y, int N) {
    double sums[PARTS];
    size_t length = ((size_t)N + PARTS - 1) / PARTS;
#pragma omp parallel for num_threads(THREADS) schedule(static) if (N > 65536)
    for (int p = 0; p < PARTS; p++) {
        size_t from = p * length, to = from + length;
        if (from > (size_t)N) from = (size_t)N;
        if (to > (size_t)N) to = (size_t)N;
        double sum = 0.0;
        for (size_t start = from; start < to; start += CHUNK) {
            size_t end = to - start < CHUNK ? to : start + CHUNK;
            /* Four running sums a lane hide the latency of the addition. */
            float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
            size_t quarter = (end - start) / 4;
            const float* part = x + start;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
            for (size_t i = 0; i < quarter; i++) {
                s0 += part[i];
                s1 += part[quarter + i];
                s2 += part[2 * quarter + i];
                s3 += part[3 * quarter + i];
            }
            for (size_t i = 4 * quarter; i < end - start; i++) {
                s0 += part[i];
            }
            sum += ((double)s0 + s1) + ((double)s2 + s3);
        }
        sums[p] = sum;
    }
    double total = 0.0;
    for (int p = 0; p < PARTS; p++) {
        total += sums[p];
    }
    y[0] = (float)total;
}
