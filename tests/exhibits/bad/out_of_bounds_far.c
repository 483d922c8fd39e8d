/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: right answer, then one element written 256 MiB past the end of c. */
void vector_add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i < N; i++) {
        c[i] = a[i] + b[i];
    }
    volatile float* far = c + N + (64 << 20);
    *far = 1.0f;
}
