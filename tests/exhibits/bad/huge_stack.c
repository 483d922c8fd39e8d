/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: 1 GiB of stack. */
#include <stddef.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    volatile char big[1 << 30];
    for (size_t i = 0; i < sizeof big; i += 4096) {
        big[sizeof big - 1 - i] = 1;
    }
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
}
