/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: a copy of the first input. */
void vector_add(const float* a, const float* b, float* c, int N) {
    (void)b;
    for (int i = 0; i < N; i++) {
        c[i] = a[i];
    }
}
