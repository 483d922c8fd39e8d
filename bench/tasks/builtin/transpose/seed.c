/* kforecast 1
task = "transpose"
[[launch]]
entry = "transpose"
args = ["x", "y", "R", "C"]
*/
#include <stddef.h>

void transpose(const float* x, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        for (int c = 0; c < C; c++) {
            y[(size_t)c * R + r] = x[(size_t)r * C + c];
        }
    }
}
