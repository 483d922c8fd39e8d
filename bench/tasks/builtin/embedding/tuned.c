/* kforecast 1
task = "embedding"
options = ["-fopenmp"]
[[launch]]
entry = "embedding"
args = ["table", "idx", "y", "T", "D"]
[tune]
THREADS = [1, 2, 4]
STREAM = [1, 0]
AHEAD = [4, 0, 2, 8]
*/
#include <stddef.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

static void copy_row(const float* row, float* out, int D, int stream) {
#if defined(__AVX2__) && STREAM
    /* Streaming stores skip the read of y's cache lines; rows of whole vectors keep them aligned. */
    if (stream) {
        for (int d = 0; d < D; d += 8) {
            _mm256_stream_ps(out + d, _mm256_loadu_ps(row + d));
        }
        return;
    }
#endif
    (void)stream;
    memcpy(out, row, (size_t)D * sizeof *out);
}

void embedding(const float* restrict table, const int* restrict idx, float* restrict y, int T, int D) {
    int large = (size_t)T * D > (1 << 18);
    int stream = large && D % 8 == 0 && (size_t)y % 32 == 0;
#pragma omp parallel num_threads(THREADS) if (large)
    {
#pragma omp for schedule(static)
        for (int t = 0; t < T; t++) {
#if AHEAD
            /* The rows to come are scattered, so the hardware cannot guess them. */
            if (t + AHEAD < T) {
                const float* next = table + (size_t)idx[t + AHEAD] * D;
                for (int d = 0; d < D; d += 16) {
                    __builtin_prefetch(next + d);
                }
            }
#endif
            copy_row(table + (size_t)idx[t] * D, y + (size_t)t * D, D, stream);
        }
#ifdef __AVX2__
        _mm_sfence();
#endif
    }
}
