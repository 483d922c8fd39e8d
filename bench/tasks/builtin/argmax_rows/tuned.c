/* kforecast 1
task = "argmax_rows"
options = ["-fopenmp"]
[[launch]]
entry = "argmax_rows"
args = ["x", "idx", "R", "C"]
[tune]
THREADS = [1, 2, 4]
CHUNK = [512, 128, 2048]
*/
#include <stddef.h>

void argmax_rows(const float* restrict x, int* restrict idx, int R, int C) {
#pragma omp parallel for num_threads(THREADS) schedule(static) if ((size_t)R * C > 32768)
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        /* Vector maxima of chunks; only a chunk that raises the maximum is searched, from its start: lowest index wins. */
        float best = row[0];
        int home = 0;
        for (int start = 0; start < C; start += CHUNK) {
            int end = C - start < CHUNK ? C : start + CHUNK;
            float top = best;
#pragma omp simd reduction(max : top)
            for (int c = start; c < end; c++) {
                top = row[c] > top ? row[c] : top;
            }
            if (top > best) {
                best = top;
                home = start;
            }
        }
        while (home < C && row[home] != best) {
            home++;
        }
        idx[r] = home < C ? home : 0;
    }
}
