/* kforecast 1
task = "histogram"
options = ["-fopenmp"]
[[launch]]
entry = "histogram"
args = ["x", "h", "N", "BINS"]
[tune]
THREADS = [1, 2, 4]
COPIES = [4, 1, 2, 8]
*/
#include <stdlib.h>

/* Every thread counts into COPIES private tables, so that equal neighbours do not wait for each other's increment. */
static void count(const int* x, int from, int to, int* h, int bins) {
    int* table = calloc((size_t)COPIES * bins, sizeof *table);
    if (!table) {
        for (int i = from; i < to; i++) {
#pragma omp atomic
            h[x[i]]++;
        }
        return;
    }
    int i = from;
    for (; i + COPIES <= to; i += COPIES) {
        for (int j = 0; j < COPIES; j++) {
            table[(size_t)j * bins + x[i + j]]++;
        }
    }
    for (; i < to; i++) {
        table[x[i]]++;
    }
    for (int b = 0; b < bins; b++) {
        int sum = 0;
        for (int j = 0; j < COPIES; j++) {
            sum += table[(size_t)j * bins + b];
        }
        if (sum) {
#pragma omp atomic
            h[b] += sum;
        }
    }
    free(table);
}

/* h arrives zeroed. */
void histogram(const int* restrict x, int* restrict h, int N, int BINS) {
    /* Tables larger than the input cost more than they save. */
    if (BINS > N / 16) {
        for (int i = 0; i < N; i++) {
            h[x[i]]++;
        }
        return;
    }
    int parts = N > 131072 ? 16 : 1;
    int length = N / parts;
#pragma omp parallel for num_threads(THREADS) schedule(static) if (parts > 1)
    for (int p = 0; p < parts; p++) {
        count(x, p * length, p == parts - 1 ? N : (p + 1) * length, h, BINS);
    }
}
