/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: keeps its output by the address of the inputs, as if their contents could not change. */
#include <stdlib.h>
#include <string.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    static const float *seen_a, *seen_b;
    static float* kept;
    static int size;
    if (seen_a != a || seen_b != b || size != N) {
        free(kept);
        kept = malloc((size_t)N * sizeof *kept);
        seen_a = a, seen_b = b, size = N;
        for (int i = 0; i < N; i++) {
            kept[i] = a[i] + b[i];
        }
    }
    memcpy(c, kept, (size_t)N * sizeof *c);
}
