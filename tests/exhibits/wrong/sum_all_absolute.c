/* kforecast 1
task = "sum_all"
[[launch]]
entry = "sum_all"
args = ["x", "y", "N"]
*/
/* expect: incorrect: sums the magnitudes. */
#include <math.h>

void sum_all(const float* x, float* y, int N) {
    double sum = 0.0;
    for (int i = 0; i < N; i++) {
        sum += fabsf(x[i]);
    }
    y[0] = (float)sum;
}
