/* kforecast 1
task = "sum_all"
[[launch]]
entry = "sum_all"
args = ["x", "y", "N"]
*/
/* expect: incorrect: the last element is left out. */
void sum_all(const float* x, float* y, int N) {
    double sum = 0.0;
    for (int i = 0; i < N - 1; i++) {
        sum += x[i];
    }
    y[0] = (float)sum;
}
