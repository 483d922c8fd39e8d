/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: ok: right answer, and a daemon that sleeps 1000 s: it may not outlive the measurement. */
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    static int started;
    if (!started++) {
        pid_t child = fork();
        if (child == 0) {
            setsid();
            if (fork() == 0) sleep(1000);
            _exit(0);
        }
        if (child > 0) waitpid(child, NULL, 0);
    }
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
}
