/* kforecast 1
# A task of one's own, in the header: the dot product of each row of a with the same row of b.
[task]
name      = "row_dot"
in.a      = { dtype = "f32", shape = ["R", "C"], fill = "normal" }
in.b      = { dtype = "f32", shape = ["R", "C"], fill = "normal" }
out.y     = { dtype = "f32", shape = ["R"] }
reference = "einsum: rc,rc->r"
precision = { multiply = "f32", accumulate = "f32" }
flops     = "2 * R * C"
checked   = [{ R = 1, C = 1 }, { R = 7, C = 33 }, { R = 130, C = 1025 }]
timed     = [{ R = 2048, C = 512 }]
[[launch]]
entry = "row_dot"
args  = ["a", "b", "y", "R", "C"]
[tune]
LANES = [16, 1, 4, 8, 32]        # the first value is the default; choose with --set LANES=8
*/
/* A sum in one variable is one long chain of additions; LANES independent ones run side by side.
 * Try it:  kforecast measure examples/row_dot.c                    (no baseline: a task of one's own has no seed)
 *          kforecast measure examples/row_dot.c --set LANES=1                                                       */
#include <stddef.h>

void row_dot(const float* a, const float* b, float* y, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* left = a + (size_t)r * C;
        const float* right = b + (size_t)r * C;
        float sum[LANES] = {0};
        int whole = C - C % LANES;
        for (int c = 0; c < whole; c += LANES)
            for (int j = 0; j < LANES; j++) sum[j] += left[c + j] * right[c + j];
        float total = 0.0f;
        for (int j = 0; j < LANES; j++) total += sum[j];
        for (int c = whole; c < C; c++) total += left[c] * right[c];
        y[r] = total;
    }
}
