/* kforecast 1
task = "histogram"
[[launch]]
entry = "histogram"
args = ["x", "h", "N", "BINS"]
*/
/* expect: incorrect: counting starts at the second element. */
/* h arrives zeroed. */
void histogram(const int* x, int* h, int N, int BINS) {
    (void)BINS;
    for (int i = 1; i < N; i++) {
        h[x[i]]++;
    }
}
