/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: adds to the output before anything was written there. */
void vector_add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i < N; i++) {
        c[i] += a[i] + b[i];
    }
}
