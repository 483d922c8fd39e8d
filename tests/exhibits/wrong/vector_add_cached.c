/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: keeps the first call's output and returns it for ever. */
#include <stdlib.h>
#include <string.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    static float* kept;
    static int size;
    if (size != N) {
        free(kept);
        kept = malloc((size_t)N * sizeof *kept);
        size = N;
        for (int i = 0; i < N; i++) {
            kept[i] = a[i] + b[i];
        }
    }
    memcpy(c, kept, (size_t)N * sizeof *c);
}
