/* kforecast 1
task = "cross_entropy"
[[launch]]
entry = "cross_entropy"
args = ["logits", "labels", "loss", "R", "C"]
*/
/* expect: incorrect: the maximum subtracted from the logits is not added back. */
#include <math.h>
#include <stddef.h>

void cross_entropy(const float* logits, const int* labels, float* loss, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = logits + (size_t)r * C;
        float top = row[0];
        for (int c = 1; c < C; c++) {
            if (row[c] > top) top = row[c];
        }
        double sum = 0.0;
        for (int c = 0; c < C; c++) {
            sum += expf(row[c] - top);
        }
        loss[r] = (float)(log(sum) + -(double)row[labels[r]]);
    }
}
