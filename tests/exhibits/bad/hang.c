/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: timeout: an endless loop that uses a whole core. */
void vector_add(const float* a, const float* b, float* c, int N) {
    volatile int go_on = 1;
    while (go_on) {
    }
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
}
