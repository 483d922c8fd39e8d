/* kforecast 1
task = "argmax_rows"
[[launch]]
entry = "argmax_rows"
args = ["x", "idx", "R", "C"]
*/
/* expect: incorrect: the maximum starts at 0: rows of negative numbers never move it. */
#include <stddef.h>

void argmax_rows(const float* x, int* idx, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        int best = 0;
        float top = 0.0f;
        for (int c = 0; c < C; c++) {
            if (row[c] > top) {
                top = row[c];
                best = c;
            }
        }
        idx[r] = best;
    }
}
