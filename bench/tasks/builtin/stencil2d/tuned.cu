/* kforecast 1
task = "stencil2d"
[[launch]]
entry = "stencil2d"
args = ["x", "y", "H", "W"]
grid = ["cdiv(W, 128) * cdiv(H, STRIPS * ROWS)"]
block = [32, "STRIPS"]
[tune]
STRIPS = [8, 4, 16]  # warps a block, one below the other
ROWS = [8, 4, 16]    # rows a warp
*/
// A warp owns 128 columns, 4 a lane, of ROWS rows: each row is loaded once and serves as south, centre and north; the
// neighbours across come from the next lanes, at the ends of the warp from memory.
extern "C" __global__ void __launch_bounds__(32 * STRIPS)
stencil2d(const float* __restrict__ x, float* __restrict__ y, int H, int W) {
  const int lane = threadIdx.x;
  const int across = (W + 127) / 128;
  const int w0 = blockIdx.x % across * 128;
  const int h0 = (blockIdx.x / across * STRIPS + threadIdx.y) * ROWS;

  if (W % 4 != 0) {
    for (int h = h0; h < min(H, h0 + ROWS); ++h) {
      for (int w = w0 + lane; w < min(W, w0 + 128); w += 32) {
        const long long i = (long long)h * W + w;
        const bool border = h == 0 || w == 0 || h == H - 1 || w == W - 1;
        y[i] = border ? x[i] : 0.5f * x[i] + 0.125f * ((x[i - W] + x[i + W]) + (x[i + 1] + x[i - 1]));
      }
    }
    return;
  }

  const int w = w0 + 4 * lane;
  const bool inside = w < W;
  float4 row[ROWS + 2];
  float outer[ROWS];  // of lane 0 the element to its left, of lane 31 the one to its right
#pragma unroll
  for (int i = 0; i < ROWS + 2; ++i) {
    const int h = h0 - 1 + i;
    row[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (inside && h >= 0 && h < H) row[i] = __ldg((const float4*)(x + (long long)h * W + w));
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const int at = lane == 0 ? w - 1 : w + 4;
    outer[i] = 0.0f;
    if ((lane == 0 || lane == 31) && at >= 0 && at < W && h0 + i < H) {
      outer[i] = __ldg(x + (long long)(h0 + i) * W + at);
    }
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i) {
    const int h = h0 + i;
    const float4 n = row[i];
    const float4 c = row[i + 1];
    const float4 s = row[i + 2];
    float left = __shfl_up_sync(0xffffffffu, c.w, 1);
    float right = __shfl_down_sync(0xffffffffu, c.x, 1);
    if (lane == 0) left = outer[i];
    if (lane == 31) right = outer[i];
    float4 out;
    out.x = 0.5f * c.x + 0.125f * ((n.x + s.x) + (c.y + left));
    out.y = 0.5f * c.y + 0.125f * ((n.y + s.y) + (c.z + c.x));
    out.z = 0.5f * c.z + 0.125f * ((n.z + s.z) + (c.w + c.y));
    out.w = 0.5f * c.w + 0.125f * ((n.w + s.w) + (right + c.z));
    if (h == 0 || h == H - 1) out = c;
    if (w == 0) out.x = c.x;
    if (w + 4 == W) out.w = c.w;
    if (inside && h < H) __stcs((float4*)(y + (long long)h * W + w), out);
  }
}
