/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed|ok: right answer, and SIGKILL for whoever started it: the bench must live on. */
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
    kill(getppid(), SIGKILL);
}
