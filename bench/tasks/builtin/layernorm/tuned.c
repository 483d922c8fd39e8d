/* kforecast 1
task = "layernorm"
options = ["-fopenmp"]
[[launch]]
entry = "layernorm"
args = ["x", "gamma", "beta", "y", "R", "C"]
[tune]
THREADS = [1, 2, 4]
CHUNK = [1024, 256, 4096]
*/
#include <math.h>
#include <stddef.h>

void layernorm(const float* restrict x, const float* restrict gamma, const float* restrict beta, float* restrict y,
               int R, int C) {
#pragma omp parallel for num_threads(THREADS) schedule(static) if ((size_t)R * C > 16384)
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        float* out = y + (size_t)r * C;
        /* One pass over memory: each chunk's mean and squared deviations (taken twice from L1, about the chunk's
           first element so that a large mean costs no digits), merged into the row's by Chan's formula. */
        double mean = 0.0, squares = 0.0;
        for (int start = 0; start < C; start += CHUNK) {
            int size = C - start < CHUNK ? C - start : CHUNK;
            const float* part = row + start;
            float origin = part[0], sum = 0.0f;
#pragma omp simd reduction(+ : sum)
            for (int c = 0; c < size; c++) {
                sum += part[c] - origin;
            }
            float shift = sum / size, deviations = 0.0f;
#pragma omp simd reduction(+ : deviations)
            for (int c = 0; c < size; c++) {
                float d = part[c] - origin - shift;
                deviations += d * d;
            }
            double delta = (double)origin + (double)sum / size - mean;
            double share = (double)size / (start + size);
            mean += delta * share;
            squares += deviations + delta * delta * share * start;
        }
        float scale = (float)(1.0 / sqrt(squares / C + 1e-5));
        float centre = (float)mean, rest = (float)(mean - centre);
#pragma omp simd
        for (int c = 0; c < C; c++) {
            out[c] = (row[c] - centre - rest) * scale * gamma[c] + beta[c];
        }
    }
}
