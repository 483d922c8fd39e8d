/* kforecast 1
task = "scan"
[[launch]]
entry = "scan"
args = ["x", "y", "N"]
*/
/* expect: incorrect: the sum starts again at every block of 1024. */
void scan(const float* x, float* y, int N) {
    double sum = 0.0;
    for (int i = 0; i < N; i++) {
        if (i % 1024 == 0) sum = 0.0;
        sum += x[i];
        y[i] = (float)sum;
    }
}
