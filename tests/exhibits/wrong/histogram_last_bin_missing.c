/* kforecast 1
task = "histogram"
[[launch]]
entry = "histogram"
args = ["x", "h", "N", "BINS"]
*/
/* expect: incorrect: the last bin is never counted. */
/* h arrives zeroed. */
void histogram(const int* x, int* h, int N, int BINS) {
    for (int i = 0; i < N; i++) {
        if (x[i] < BINS - 1) h[x[i]]++;
    }
}
