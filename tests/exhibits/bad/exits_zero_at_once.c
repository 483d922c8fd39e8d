/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: ends the process with code 0 before any work, without running exit handlers. */
#include <unistd.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    (void)a, (void)b, (void)c, (void)N;
    _exit(0);
}
