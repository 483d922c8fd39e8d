/* kforecast 1
task = "histogram"
[[launch]]
entry = "histogram"
args = ["x", "h", "N", "BINS"]
*/
/* expect: incorrect: counts stop at 255, as in a table of bytes. */
/* h arrives zeroed. */
void histogram(const int* x, int* h, int N, int BINS) {
    (void)BINS;
    for (int i = 0; i < N; i++) {
        if (h[x[i]] < 255) h[x[i]]++;
    }
}
