/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: incorrect: infinities become the largest finite float. */
void vector_add(const float* a, const float* b, float* c, int N) {
    const float most = 3.4028235e38f;
    for (int i = 0; i < N; i++) {
        float sum = a[i] + b[i];
        c[i] = sum > most ? most : sum < -most ? -most : sum;
    }
}
