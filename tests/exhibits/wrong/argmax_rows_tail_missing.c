/* kforecast 1
task = "argmax_rows"
[[launch]]
entry = "argmax_rows"
args = ["x", "idx", "R", "C"]
*/
/* expect: incorrect: the C % 8 columns at the end are never looked at. */
#include <stddef.h>

void argmax_rows(const float* x, int* idx, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = x + (size_t)r * C;
        int best = 0;
        for (int c = 1; c < C / 8 * 8; c++) {
            if (row[c] > row[best]) best = c;
        }
        idx[r] = best;
    }
}
