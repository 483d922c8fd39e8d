/* kforecast 1
task = "rmsnorm"
options = ["-fopenmp"]
[[launch]]
entry = "rmsnorm"
args = ["x", "w", "y", "R", "C"]
[tune]
THREADS = [1, 2, 4]
CHUNK = [1024, 256, 4096]
*/
#include <math.h>
#include <stddef.h>

void rmsnorm(const float* restrict x, const float* restrict w, float* restrict y, int R, int C) {
#pragma omp parallel for num_threads(THREADS) schedule(static) if ((size_t)R * C > 16384)
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        double squares = 0.0;
        for (int start = 0; start < C; start += CHUNK) {
            int end = C - start < CHUNK ? C : start + CHUNK;
            float part = 0.0f;
#pragma omp simd reduction(+ : part)
            for (int c = start; c < end; c++) {
                part += row[c] * row[c];
            }
            squares += part;
        }
        float scale = (float)(1.0 / sqrt(squares / C + 1e-6));
#pragma omp simd
        for (int c = 0; c < C; c++) {
            out[c] = row[c] * scale * w[c];
        }
    }
}
