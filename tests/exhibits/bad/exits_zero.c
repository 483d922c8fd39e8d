/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: right answer, then the process ends with code 0, as a program that succeeded does. */
#include <stdlib.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
    exit(0);
}
