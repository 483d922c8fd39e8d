/* kforecast 1
task = "histogram"
[[launch]]
entry = "histogram"
args = ["x", "h", "N", "BINS"]
*/
/* h arrives zeroed. */
void histogram(const int* x, int* h, int N, int BINS) {
    (void)BINS;
    for (int i = 0; i < N; i++) {
        h[x[i]]++;
    }
}
