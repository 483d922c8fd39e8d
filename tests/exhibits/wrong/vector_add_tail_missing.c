/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: only whole groups of eight are written, the N % 8 at the end are not. */
void vector_add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i + 8 <= N; i += 8) {
        for (int j = i; j < i + 8; j++) {
            c[j] = a[j] + b[j];
        }
    }
}
