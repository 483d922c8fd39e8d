/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: timeout: sleeps for ever and uses no processor at all. */
#include <unistd.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    for (;;) {
        pause();
    }
    (void)a, (void)b, (void)c, (void)N;
}
