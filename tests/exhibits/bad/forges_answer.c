/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: tampered|incorrect|crashed: writes made-up answers into every descriptor it finds, and computes nothing. */
#include <string.h>
#include <unistd.h>

void vector_add(const float* a, const float* b, float* c, int N) {
    char made_up[512];
    memset(made_up, 0, sizeof made_up);
    for (int file = 3; file < 64; file++) {
        if (write(file, made_up, sizeof made_up) < 0) continue;
    }
    (void)a, (void)b, (void)c, (void)N;
}
