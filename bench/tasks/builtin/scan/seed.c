/* kforecast 1
task = "scan"
[[launch]]
entry = "scan"
args = ["x", "y", "N"]
*/
void scan(const float* x, float* y, int N) {
    double sum = 0.0;
    for (int i = 0; i < N; i++) {
        sum += x[i];
        y[i] = (float)sum;
    }
}
