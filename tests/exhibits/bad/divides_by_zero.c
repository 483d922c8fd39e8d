/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: an integer division by zero. */
void vector_add(const float* a, const float* b, float* c, int N) {
    volatile int zero = 0;
    int stride = N / zero;
    for (int i = 0; i < N; i += stride) {
        c[i] = a[i] + b[i];
    }
}
