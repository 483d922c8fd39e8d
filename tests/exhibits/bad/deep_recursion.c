/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: crashed: a recursion that never ends. */
static float deeper(const float* a, int depth) {
    volatile float frame[256];
    frame[depth & 255] = a[0];
    return deeper(a, depth + 1) + frame[depth & 255];
}

void vector_add(const float* a, const float* b, float* c, int N) {
    c[0] = deeper(a, N) + b[0];
}
