/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: every seventh block of 512 elements is skipped. */
void vector_add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i < N; i++) {
        if (i / 512 % 7 == 6) continue;
        c[i] = a[i] + b[i];
    }
}
