/* kforecast 1
task = "softmax_rows"
[[launch]]
entry = "softmax_rows"
args = ["x", "y", "R", "C"]
grid = ["R"]
block = ["BLOCK"]
[tune]
BLOCK = [256, 64, 128, 512, 1024]
VEC = [4, 1, 2]        # floats a load
ONLINE = [1, 0]        # maximum and sum in one pass over the row, or in two
UNROLL = [1, 2, 4, 8]  # of the loops over the row
*/
/* A row a block: 120 configurations, all valid, for two tuners to measure. */
struct Part {
  float top, sum;
};

__device__ Part merged(Part a, Part b) {
  const float lowest = __int_as_float(0xff800000);
  if (a.top == lowest && b.top == lowest) return {lowest, a.sum + b.sum};
  const float top = fmaxf(a.top, b.top);
  return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

__device__ Part over_block(Part own) {
  __shared__ Part parts[32];
  for (int lane = 16; lane; lane /= 2) {
    const Part other = {__shfl_xor_sync(~0u, own.top, lane), __shfl_xor_sync(~0u, own.sum, lane)};
    own = merged(own, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
  __syncthreads();
  Part all = parts[0];
  for (int warp = 1; warp < BLOCK / 32; warp++) all = merged(all, parts[warp]);
  return all;
}

struct alignas(4 * VEC) Pack {
  float v[VEC];
};

/* Calls `each` with every element of the row and where to put the result, in wide loads where rows are aligned. */
template <class Each>
__device__ void over_row(const float* row, float* out, int C, bool store, Each each) {
  if (C % VEC == 0) {
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < C / VEC; i += BLOCK) {
      Pack pack = reinterpret_cast<const Pack*>(row)[i];
      for (int k = 0; k < VEC; k++) pack.v[k] = each(pack.v[k]);
      if (store) reinterpret_cast<Pack*>(out)[i] = pack;
    }
  } else {
    for (int i = threadIdx.x; i < C; i += BLOCK) {
      const float value = each(row[i]);
      if (store) out[i] = value;
    }
  }
}

extern "C" __global__ void softmax_rows(const float* x, float* y, int R, int C) {
  const float* row = x + (size_t)blockIdx.x * C;
  float* out = y + (size_t)blockIdx.x * C;
  Part own = {__int_as_float(0xff800000), 0.0f};
  if (ONLINE) {
    over_row(row, out, C, false, [&](float v) {
      own = merged(own, {v, 1.0f});
      return v;
    });
    own = over_block(own);
  } else {
    over_row(row, out, C, false, [&](float v) {
      own.top = fmaxf(own.top, v);
      return v;
    });
    const float top = over_block(own).top;
    float sum = 0.0f;
    over_row(row, out, C, false, [&](float v) {
      sum += expf(v - top);
      return v;
    });
    own = over_block({top, sum});
  }
  const float top = own.top, scale = 1.0f / own.sum;
  over_row(row, out, C, true, [&](float v) { return expf(v - top) * scale; });
}
