/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: works on the first call only; later ones leave what was there. */
void vector_add(const float* a, const float* b, float* c, int N) {
    static int called;
    if (called++) return;
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
}
