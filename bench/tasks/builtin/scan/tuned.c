/* kforecast 1
task = "scan"
options = ["-fopenmp"]
[[launch]]
entry = "scan"
args = ["x", "y", "N"]
[tune]
THREADS = [1, 2, 4]
PART = [65536, 16384, 262144]
*/
#include <stddef.h>
#include <stdlib.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

static double sum_part(const float* x, size_t size) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < size; i++) {
        sum += x[i];
    }
    return sum;
}

#ifdef __AVX2__
/* a, a+b, a+b+c, a+b+c+d */
static __m256d scan_four(const float* x) {
    __m256d v = _mm256_cvtps_pd(_mm_loadu_ps(x)), zero = _mm256_setzero_pd();
    v = _mm256_add_pd(v, _mm256_shuffle_pd(zero, v, 0x0));
    return _mm256_add_pd(v, _mm256_blend_pd(zero, _mm256_permute4x64_pd(v, 0x55), 0xc));
}
#endif

/* The running sum is a double, so N roundings do not add up; eight elements wait for the last eight's sum only once. */
static double scan_part(const float* x, float* y, size_t size, double sum) {
    size_t i = 0;
#ifdef __AVX2__
    __m256d carry = _mm256_set1_pd(sum);
    for (; i + 8 <= size; i += 8) {
        __m256d low = scan_four(x + i), high = scan_four(x + i + 4);
        high = _mm256_add_pd(high, _mm256_permute4x64_pd(low, 0xff));
        _mm_storeu_ps(y + i, _mm256_cvtpd_ps(_mm256_add_pd(carry, low)));
        _mm_storeu_ps(y + i + 4, _mm256_cvtpd_ps(_mm256_add_pd(carry, high)));
        carry = _mm256_add_pd(carry, _mm256_permute4x64_pd(high, 0xff));
    }
    sum = _mm256_cvtsd_f64(carry);
#endif
    for (; i < size; i++) {
        sum += x[i];
        y[i] = (float)sum;
    }
    return sum;
}

void scan(const float* restrict x, float* restrict y, int N) {
    int parts = (int)(((size_t)N + PART - 1) / PART);
    double* before = THREADS > 1 && parts > 1 ? malloc((size_t)parts * sizeof *before) : NULL;
    if (!before) {
        scan_part(x, y, N, 0.0);
        return;
    }
    /* Threads need two passes: the sum of every part, then every part from the sum of those before it. */
#pragma omp parallel for num_threads(THREADS) schedule(static)
    for (int p = 0; p < parts - 1; p++) {
        before[p + 1] = sum_part(x + (size_t)p * PART, PART);
    }
    before[0] = 0.0;
    for (int p = 1; p < parts; p++) {
        before[p] += before[p - 1];
    }
#pragma omp parallel for num_threads(THREADS) schedule(static)
    for (int p = 0; p < parts; p++) {
        size_t from = (size_t)p * PART;
        size_t size = (size_t)N - from < PART ? (size_t)N - from : PART;
        scan_part(x + from, y + from, size, before[p]);
    }
    free(before);
}
