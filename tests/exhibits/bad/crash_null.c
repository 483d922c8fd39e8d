/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: writes through a null pointer. */
#include <stddef.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    volatile float* volatile nowhere = NULL;
    nowhere[0] = 1.0f;
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
}
