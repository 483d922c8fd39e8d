/* kforecast 1
task = "transpose"
[[launch]]
entry = "transpose"
args = ["x", "y", "R", "C"]
*/
/* expect: incorrect: only whole tiles of 16 x 16 are written. */
#include <stddef.h>

void transpose(const float* x, float* y, int R, int C) {
    for (int r = 0; r < R / 16 * 16; r++) {
        for (int c = 0; c < C / 16 * 16; c++) {
            y[(size_t)c * R + r] = x[(size_t)r * C + c];
        }
    }
}
