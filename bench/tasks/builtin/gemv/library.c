/* kforecast 1
task = "gemv"
[[launch]]
entry = "gemv"
args = ["A", "x", "y", "M", "K"]
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
typedef void (*sgemv_function)(int order, int transpose, int64_t m, int64_t n, float alpha, const float* a, int64_t lda,
                               const float* x, int64_t step_x, float beta, float* y, int64_t step_y);

/* The library is loaded by the first call, which no timing includes, and stays loaded. */
static sgemv_function load(void) {
    void* library = dlopen(KFORECAST_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    sgemv_function found = library ? (sgemv_function)dlsym(library, "scipy_cblas_sgemv64_") : NULL;
    if (!found) {
        fprintf(stderr, "no scipy_cblas_sgemv64_ in %s: %s\n", KFORECAST_OPENBLAS, dlerror());
        abort();
    }
    return found;
}

void gemv(const float* A, const float* x, float* y, int M, int K) {
    static sgemv_function sgemv;
    if (!sgemv) sgemv = load();
    sgemv(ROW_MAJOR, NO_TRANSPOSE, M, K, 1.0f, A, K, x, 1, 0.0f, y, 1);
}
