/* kforecast 1
task = "batched_gemm"
[[launch]]
entry = "batched_gemm"
args = ["A", "B", "C", "G", "M", "N", "K"]
*/
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The bench passes the path of the OpenBLAS that numpy brings along (64-bit integers, symbols scipy_..64_).
   Threads follow OpenBLAS's own default: one per core, fewer where OPENBLAS_NUM_THREADS or OMP_NUM_THREADS says so. */
#ifndef KFORECAST_OPENBLAS
#error "KFORECAST_OPENBLAS is not defined: it is the path of numpy's OpenBLAS, in quotes"
#endif

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };
typedef void (*sgemm_function)(int order, int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                               const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

/* The library is loaded by the first call, which no timing includes, and stays loaded. */
static sgemm_function load(void) {
    void* library = dlopen(KFORECAST_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    sgemm_function found = library ? (sgemm_function)dlsym(library, "scipy_cblas_sgemm64_") : NULL;
    if (!found) {
        fprintf(stderr, "no scipy_cblas_sgemm64_ in %s: %s\n", KFORECAST_OPENBLAS, dlerror());
        abort();
    }
    return found;
}

void batched_gemm(const float* A, const float* B, float* C, int G, int M, int N, int K) {
    static sgemm_function sgemm;
    if (!sgemm) sgemm = load();
    for (int g = 0; g < G; g++) {
        sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, M, N, K, 1.0f, A + (size_t)g * M * K, K, B + (size_t)g * K * N, N, 0.0f,
              C + (size_t)g * M * N, N);
    }
}
