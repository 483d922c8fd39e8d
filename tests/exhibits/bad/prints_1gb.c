/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: ok|crashed: right answer, and 1 GB on standard output: it may be kept only up to a cap. */
#include <stdio.h>
#include <string.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
    char line[1024];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (int i = 0; i < 1 << 20; i++) {
        fwrite(line, 1, sizeof line, stdout);
    }
    fflush(stdout);
}
