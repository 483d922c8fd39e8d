/* kforecast 1
task = "stencil2d"
[[launch]]
entry = "stencil2d"
args = ["x", "y", "H", "W"]
*/
/* expect: incorrect: reads the four diagonal neighbours. */
#include <stddef.h>

void stencil2d(const float* x, float* y, int H, int W) {
    for (int i = 0; i < H; i++) {
        for (int j = 0; j < W; j++) {
            size_t at = (size_t)i * W + j;
            if (i == 0 || j == 0 || i == H - 1 || j == W - 1) {
                y[at] = x[at];
            } else {
                y[at] = 0.5f * x[at] + 0.125f * (x[at - W - 1] + x[at + W + 1] + x[at - W + 1] + x[at + W - 1]);
            }
        }
    }
}
