/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: ok: right answer, and 200 sleeping children: none may outlive the measurement. */
#include <sys/types.h>
#include <unistd.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    static int forked;
    while (forked < 200) {
        forked++;
        pid_t child = fork();
        if (child < 0) break;
        if (child == 0) {
            sleep(1000);
            _exit(0);
        }
    }
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
}
