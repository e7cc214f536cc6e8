// layer_norm and add_layer_norm over f32 [T, H]. A block a row; up to 16384 columns the row stays in registers between the mean, the
// variance about it and the scaling. Bound by memory: each operand once. Both sums are taken in a tree that follows from H alone.
#include "kernels/cuda/layer_norm.h"

#include "kernels/cuda/packs.cuh"
#include "ops/layer_norm.h"

namespace headrace::cuda {
namespace {

constexpr int kMaxColumns = kKeptPacks * kMaxThreads * kPack;

struct Norm {
  RowsOf<const float> x, residual;  // residual and sum: of the fused form
  RowsOf<float> sum, y;
  const float* weight;
  const float* bias;
  int columns;
  float eps;
};

template <bool kFused, bool kAligned>
__global__ void __launch_bounds__(kMaxThreads) layer_norm_kernel(const Norm norm) {
  __shared__ float partial[2][32];
  begin_step_kernel();
  const int first = int(threadIdx.x) * kPack, step = int(blockDim.x) * kPack;
  float kept[kKeptPacks][kPack], other[kPack];
  float total = 0;
#pragma unroll
  for (int p = 0; p < kKeptPacks; ++p) {
    const int column = first + p * step, left = norm.columns - column;
    if (left <= 0) break;
    load_pack<kAligned>(norm.x[blockIdx.x] + column, left, kept[p]);
    if constexpr (kFused) {
      load_pack<kAligned>(norm.residual[blockIdx.x] + column, left, other);
#pragma unroll
      for (int i = 0; i < kPack; ++i) kept[p][i] += other[i];
      store_pack<kAligned>(kept[p], norm.sum[blockIdx.x] + column, left);
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) total += kept[p][i];
  }
  const float mean = row_sum(total, partial[0]) / float(norm.columns);
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kKeptPacks; ++p) {
    const int left = norm.columns - (first + p * step);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (i >= left) break;
      kept[p][i] -= mean;
      squares = fmaf(kept[p][i], kept[p][i], squares);
    }
  }
  const float inverse = 1.0f / sqrtf(row_sum(squares, partial[1]) / float(norm.columns) + norm.eps);
#pragma unroll
  for (int p = 0; p < kKeptPacks; ++p) {
    const int column = first + p * step, left = norm.columns - column;
    if (left <= 0) break;
    load_pack<kAligned>(norm.weight + column, left, other);
#pragma unroll
    for (int i = 0; i < kPack; ++i) kept[p][i] *= inverse * other[i];
    load_pack<kAligned>(norm.bias + column, left, other);
#pragma unroll
    for (int i = 0; i < kPack; ++i) kept[p][i] += other[i];
    store_pack<kAligned>(kept[p], norm.y[blockIdx.x] + column, left);
  }
}

template <bool kFused>
void run(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[kFused ? 1 : 0].tensor;
  if (y.elements() == 0) return;
  const int64_t columns = y.dims[1];
  bool aligned = packs_aligned(x, columns) && packs_aligned(y, columns);
  Norm norm{.x = rows_of<const float>(x),
            .residual = {},
            .sum = {},
            .y = rows_of<float>(y),
            .weight = vector_of(args.inputs[kFused ? 2 : 1]),
            .bias = vector_of(args.inputs[kFused ? 3 : 2]),
            .columns = int(columns),
            .eps = args.attrs.as<ops::LayerNormAttrs>().eps};
  if constexpr (kFused) {
    norm.residual = rows_of<const float>(args.inputs[1].tensor);
    norm.sum = rows_of<float>(args.outputs[0].tensor);
    aligned = aligned && packs_aligned(args.inputs[1].tensor, columns) && packs_aligned(args.outputs[0].tensor, columns);
  }
  dispatch_bool(aligned, [&]<bool kAligned>() {
    launch(layer_norm_kernel<kFused, kAligned>, unsigned(y.dims[0]), unsigned(row_threads(columns)), 0, stream_of(step), norm);
  });
}

bool matrices(std::span<const ValueType>, std::span<const ValueType> outputs, const Attrs&) {
  const Shape& shape = outputs[0].shape;
  return shape.rank() == 2 && shape[1].is_constant() && shape[1].constant() <= kMaxColumns && outputs[0].dtype == DType::f32;
}

const PluginKernel kRows[] = {
    {"layer_norm", {.name = "cuda_row", .device = DeviceKind::cuda, .supports = matrices, .run = run<false>}},
    {"add_layer_norm", {.name = "cuda_row", .device = DeviceKind::cuda, .supports = matrices, .run = run<true>}},
};

}  // namespace

KernelRows layer_norm_rows() { return {kRows, 2}; }

}  // namespace headrace::cuda
