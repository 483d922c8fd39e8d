/* kforecast 1
task = "cross_entropy"
[[launch]]
entry = "cross_entropy"
args = ["logits", "labels", "loss", "R", "C"]
*/
/* expect: incorrect: the maximum is not subtracted: large logits overflow. */
#include <math.h>
#include <stddef.h>

void cross_entropy(const float* logits, const int* labels, float* loss, int R, int C) {
    for (int r = 0; r < R; r++) {
        const float* row = logits + (size_t)r * C;
        double sum = 0.0;
        for (int c = 0; c < C; c++) {
            sum += expf(row[c]);
        }
        loss[r] = (float)(log(sum) + -(double)row[labels[r]]);
    }
}
