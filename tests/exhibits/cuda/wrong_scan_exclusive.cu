/* kforecast 1
task = "scan"
[[launch]]
entry = "scan"
args = ["x", "y", "N"]
grid = [1]
block = [1]
*/
/* expect: incorrect: y[n] leaves out x[n] itself. */
extern "C" __global__ void scan(const float* x, float* y, int N) {
  float sum = 0.0f;
  for (int n = 0; n < N; ++n) {
    y[n] = sum;
    sum += x[n];
  }
}
