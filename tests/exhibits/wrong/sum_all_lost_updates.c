/* kforecast 1
task = "sum_all"
options = ["-fopenmp"]
[[launch]]
entry = "sum_all"
args = ["x", "y", "N"]
*/
/* expect: incorrect: four threads add to one total without a lock; the barrier makes the race certain. */
void sum_all(const float* x, float* y, int N) {
    double total = 0.0;
#pragma omp parallel num_threads(4) shared(total)
    {
        double mine = total;
#pragma omp barrier
#pragma omp for
        for (int i = 0; i < N; i++) {
            mine += x[i];
        }
        total = mine;
    }
    y[0] = (float)total;
}
