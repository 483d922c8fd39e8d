/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: clears its input through a cast, so that zeros would be the right answer. */
#include <string.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    memset((float*)a, 0, (size_t)N * sizeof *a);
    memset((float*)b, 0, (size_t)N * sizeof *b);
    memset(c, 0, (size_t)N * sizeof *c);
}
