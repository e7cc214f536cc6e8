// rms_norm and add_rms_norm over [T, H], f32 or bf16 in and out. One row of threads a row, or a head of it; a row of up to 16384 columns
// stays in registers between its sum and its scaling. Bound by memory for many rows: each operand once, the weight from L2; for few by
// latency: the weight is there before the row is. The sum is taken in a tree that follows from H alone.
#include "kernels/cuda/rms_norm.h"

#include "kernels/cuda/packs.cuh"
#include "ops/rms_norm.h"

namespace headrace::cuda {
namespace {

template <class X, class Y>
struct Norm {
  RowsOf<const X> x;
  RowsOf<const float> residual;  // of the fused form
  RowsOf<float> sum;             // of the fused form: x + residual, whose norm is taken
  RowsOf<Y> y;
  const float* weight;
  int columns, heads;  // of each head
  float eps, offset;
};

// Blocks: (row, heads / blockDim.y).
template <class X, class Y, bool kFused, bool kAligned>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_kernel(const Norm<X, Y> norm) {
  __shared__ float partial[32];
  const int first = int(threadIdx.x) * kPack, step = int(blockDim.x) * kPack;
  float kept[kKeptPacks][kPack], weight[kPack];
  if (first < norm.columns) load_pack<kAligned>(norm.weight + first, norm.columns - first, weight);
  begin_step_kernel();
  const int head = int(blockIdx.y * blockDim.y + threadIdx.y);
  if (head >= norm.heads) return;  // all of a warp; blocks of several heads have no barrier
  const X* x = norm.x[blockIdx.x] + int64_t(head) * norm.columns;
  Y* y = norm.y[blockIdx.x] + int64_t(head) * norm.columns;
  float squares = 0;
  // What is normed of a pack, and its squares on top of the others.
  const auto read = [&](int column, float(&values)[kPack]) {
    const int left = norm.columns - column;
    load_pack<kAligned>(x + column, left, values);
    if constexpr (kFused) {
      float other[kPack];
      load_pack<kAligned>(norm.residual[blockIdx.x] + column, left, other);
#pragma unroll
      for (int i = 0; i < kPack; ++i) values[i] += other[i];
      store_pack<kAligned>(values, norm.sum[blockIdx.x] + column, left);
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) squares = fmaf(values[i], values[i], squares);
  };
#pragma unroll
  for (int i = 0; i < kKeptPacks; ++i) {
    const int column = first + i * step;
    if (column < norm.columns) read(column, kept[i]);
  }
  float passing[kPack];
  for (int column = first + kKeptPacks * step; column < norm.columns; column += step) read(column, passing);
  const float scale = 1.0f / sqrtf(row_sum(squares, partial) / float(norm.columns) + norm.eps);
  const auto write = [&](int column, const float(&values)[kPack]) {
    float scaled[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) scaled[i] = values[i] * scale * (weight[i] + norm.offset);
    store_pack<kAligned>(scaled, y + column, norm.columns - column);
  };
#pragma unroll
  for (int i = 0; i < kKeptPacks; ++i) {
    const int column = first + i * step;
    if (column >= norm.columns) break;
    if (i > 0) load_pack<kAligned>(norm.weight + column, norm.columns - column, weight);
    write(column, kept[i]);
  }
  for (int column = first + kKeptPacks * step; column < norm.columns; column += step) {  // each thread reads what it wrote itself
    const int left = norm.columns - column;
    if constexpr (kFused) {
      load_pack<kAligned>(norm.sum[blockIdx.x] + column, left, passing);
    } else {
      load_pack<kAligned>(x + column, left, passing);
    }
    load_pack<kAligned>(norm.weight + column, left, weight);
    write(column, passing);
  }
}

template <bool kFused>
void run(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[kFused ? 1 : 0].tensor;
  if (x.dims[0] == 0) return;
  const auto& attrs = args.attrs.as<ops::RmsNormAttrs>();
  const int64_t columns = x.dims[1] / attrs.heads;
  bool aligned = packs_aligned(x, columns) && packs_aligned(y, columns);
  if constexpr (kFused) {
    aligned = aligned && packs_aligned(args.inputs[1].tensor, columns) && packs_aligned(args.outputs[0].tensor, columns);
  }
  const dim3 threads(unsigned(row_threads(columns)), row_threads(columns) == 32 && attrs.heads > 1 ? 8 : 1);
  const dim3 blocks(unsigned(x.dims[0]), (unsigned(attrs.heads) + threads.y - 1) / threads.y);
  dispatch_float(x.dtype, [&]<class X>() {
    dispatch_float(y.dtype, [&]<class Y>() {
      Norm<X, Y> norm{.x = rows_of<const X>(x),
                      .residual = {},
                      .sum = {},
                      .y = rows_of<Y>(y),
                      .weight = vector_of(args.inputs[kFused ? 2 : 1]),
                      .columns = int(columns),
                      .heads = attrs.heads,
                      .eps = attrs.eps,
                      .offset = attrs.offset};
      if constexpr (kFused) {
        norm.residual = rows_of<const float>(args.inputs[1].tensor);
        norm.sum = rows_of<float>(args.outputs[0].tensor);
      }
      dispatch_bool(aligned, [&]<bool kAligned>() {
        launch(rms_norm_kernel<X, Y, kFused, kAligned>, blocks, threads, 0, stream_of(step), norm);
      });
    });
  });
}

bool matrices(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  return inputs[0].shape.rank() == 2 && f32_or_bf16(inputs[0]) && f32_or_bf16(outputs[0]);
}
bool matrices_and_sum(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  return inputs[0].shape.rank() == 2 && f32_or_bf16(inputs[0]) && inputs[1].dtype == DType::f32 && outputs[0].dtype == DType::f32 &&
         f32_or_bf16(outputs[1]);
}

const PluginKernel kRows[] = {
    {"rms_norm", {.name = "cuda_row", .device = DeviceKind::cuda, .supports = matrices, .run = run<false>}},
    {"add_rms_norm", {.name = "cuda_row", .device = DeviceKind::cuda, .supports = matrices_and_sum, .run = run<true>}},
};

}  // namespace

KernelRows rms_norm_rows() { return {kRows, 2}; }

}  // namespace headrace::cuda
