/* kforecast 1
task = "transpose"
[[launch]]
entry = "transpose"
args = ["x", "y", "R", "C"]
*/
/* expect: incorrect: the rows come out in reverse order. */
#include <stddef.h>

void transpose(const float* x, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        for (int c = 0; c < C; c++) {
            y[(size_t)c * R + (R - 1 - r)] = x[(size_t)r * C + c];
        }
    }
}
