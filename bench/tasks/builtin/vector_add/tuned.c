/* kforecast 1
task = "vector_add"
options = ["-fopenmp"]
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
[tune]
THREADS = [1, 2, 4]
STREAM = [1, 0]
*/
#ifdef __AVX2__
#include <immintrin.h>
#endif

/* Below this many elements the outputs stay in cache, and waking a thread costs more than it saves. */
#define LARGE (1 << 18)

void vector_add(const float* restrict a, const float* restrict b, float* restrict c, int N) {
#if defined(__AVX2__) && STREAM
    /* Streaming stores skip the read of c's cache lines: 12 bytes moved an element, not 16. c is 256-byte aligned. */
    if (N >= LARGE && (unsigned long long)c % 32 == 0) {
        int whole = N / 32;
#pragma omp parallel for num_threads(THREADS)
        for (int i = 0; i < whole; i++) {
            for (int j = 0; j < 32; j += 8) {
                int at = 32 * i + j;
                _mm256_stream_ps(c + at, _mm256_add_ps(_mm256_loadu_ps(a + at), _mm256_loadu_ps(b + at)));
            }
        }
        _mm_sfence();
        for (int i = 32 * whole; i < N; i++) {
            c[i] = a[i] + b[i];
        }
        return;
    }
#endif
#pragma omp parallel for simd num_threads(THREADS) if (N >= LARGE)
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
}
