// matmul in float32, weights decoded: what --exact with --deterministic runs, and --exact without cuBLASLt. A block makes 64 rows of the
// weight times 64 tokens, a thread 4 x 4 of them, each summed over rising columns one after the other, whatever the other rows are.
// Bound by shared memory: two 16-byte reads for sixteen products.
#include "kernels/cuda/matmul_f32.h"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;      // rows and tokens of a block
constexpr int kOwn = 4;        // of each, a thread's
constexpr int kColumns = 16;   // of a stage
constexpr int kPitch = kTile + 4;

// Columns [column, column + kColumns) of kTile rows from `first` on, transposed; zeros past the last row and the last column.
__device__ void load_stage(RowsOf<const float> from, int64_t first, int64_t rows, int column, int columns, float (*to)[kPitch]) {
#pragma unroll
  for (int i = 0; i < kTile * kColumns / kThreads; ++i) {
    const int at = i * kThreads + int(threadIdx.x), row = at / kColumns, c = at % kColumns;
    const bool present = first + row < rows && column + c < columns;
    to[c][row] = present ? from[first + row][column + c] : 0.0f;
  }
}

__global__ void __launch_bounds__(kThreads) f32_kernel(RowsOf<const float> x, RowsOf<const float> weight, const float* bias, int rows,
                                                       int columns, int tokens, RowsOf<float> y) {
  __shared__ __align__(16) float weights[kColumns][kPitch], inputs[kColumns][kPitch];
  begin_step_kernel();
  const int64_t first_row = int64_t(blockIdx.x) * kTile, first_token = int64_t(blockIdx.y) * kTile;
  const int row = int(threadIdx.x) % 16 * kOwn, token = int(threadIdx.x) / 16 * kOwn;
  float sums[kOwn][kOwn] = {};  // [token][row]
  for (int column = 0; column < columns; column += kColumns) {
    load_stage(weight, first_row, rows, column, columns, weights);
    load_stage(x, first_token, tokens, column, columns, inputs);
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float4 w = *reinterpret_cast<const float4*>(&weights[c][row]);
      const float4 v = *reinterpret_cast<const float4*>(&inputs[c][token]);
      const float factors[] = {w.x, w.y, w.z, w.w}, values[] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sums[i][j] = fmaf(values[i], factors[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int64_t n = first_row + row + j, at = first_token + token + i;
      if (n < rows && at < tokens) y[at][n] = bias == nullptr ? sums[i][j] : sums[i][j] + bias[n];
    }
  }
}

}  // namespace

void f32_matmul(const StepContext& step, const NodeArgs& args) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  if (y.elements() == 0) return;
  const float* bias = args.inputs.size() > 2 ? reinterpret_cast<const float*>(args.inputs[2].weight.data) : nullptr;
  const RowsOf<const float> weight{reinterpret_cast<const float*>(args.inputs[1].weight.data), x.dims[1]};
  const dim3 blocks(unsigned((y.dims[1] + kTile - 1) / kTile), unsigned((y.dims[0] + kTile - 1) / kTile));
  launch(f32_kernel, blocks, kThreads, 0, stream_of(step), rows_of<const float>(x), weight, bias, int(y.dims[1]), int(x.dims[1]),
         int(y.dims[0]), rows_of<float>(y));
}

}  // namespace headrace::cuda
