/* kforecast 1
task = "scan"
[[launch]]
entry = "scan"
args = ["x", "y", "N"]
*/
/* expect: incorrect: each element is left out of its own sum. */
void scan(const float* x, float* y, int N) {
    double sum = 0.0;
    for (int i = 0; i < N; i++) {
        y[i] = (float)sum;
        sum += x[i];
    }
}
