/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: takes and touches memory without end; where none is left, the write goes through null. */
#include <stdlib.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    for (;;) {
        volatile char* block = malloc(64 << 20);
        for (int i = 0; i < 64 << 20; i += 4096) {
            block[i] = 1;
        }
    }
    (void)a, (void)b, (void)c, (void)N;
}
