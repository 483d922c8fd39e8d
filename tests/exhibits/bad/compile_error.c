/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: compile_error: the error is on line 10, where `sum` has no declaration. */
void vector_add(const float* a, const float* b, float* c, int N) {
    for (int i = 0; i < N; i++) {
        sum = a[i] + b[i];
        c[i] = sum;
    }
}
