/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: takes and touches memory without end; where none is left, the write goes through null. */
#include <stdlib.h>
#include <string.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    for (;;) {
        char* volatile block = malloc(64 << 20);
        memset(block, 1, 64 << 20);
    }
    (void)a, (void)b, (void)c, (void)N;
}
