/* kforecast 1
task = "vector_add"
[[launch]]
entry = "vector_add"
args = ["a", "b", "c", "N"]
*/
/* expect: compile_error: calls a function that no library has. */
void add_elsewhere(const float* a, const float* b, float* c, int N);

void vector_add(const float* a, const float* b, float* c, int N) {
    add_elsewhere(a, b, c, N);
}
