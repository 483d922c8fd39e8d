/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: the last element is never written. */
void vector_add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i < N - 1; i++) {
        c[i] = a[i] + b[i];
    }
}
