/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: zeros, whatever the input. */
void vector_add(const float* a, const float* b, float* c, int N) {
    (void)a, (void)b;
    for (int i = 0; i < N; i++) {
        c[i] = 0.0f;
    }
}
