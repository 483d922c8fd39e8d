/* kforecast 1
task = "bias_gelu"                                  # x[R, C] f32, b[C] f32 -> y[R, C] f32
[[launch]]
entry = "bias_gelu"
args  = ["x", "b", "y", "R", "C"]
grid  = ["cdiv(C, BLOCK)", "R"]                     # blocks in x and y
block = ["BLOCK"]                                   # threads in x
[tune]
BLOCK = [256, 128, 512]                             # passed as -DBLOCK=256
*/
/* One thread an element. Without a GPU there are still facts:  kforecast facts examples/bias_gelu.cu --arch sm_90 */
extern "C" __global__ void bias_gelu(const float* x, const float* b, float* y, int R, int C) {
    int c = blockIdx.x * BLOCK + threadIdx.x;
    if (c >= C) return;
    for (int r = blockIdx.y; r < R; r += gridDim.y) {
        float t = x[(long long)r * C + c] + b[c];
        y[(long long)r * C + c] = 0.5f * t * (1.0f + tanhf(0.7978845608f * (t + 0.044715f * t * t * t)));
    }
}
