// pool_rows and l2_normalize: the end of an embedder. Bound by memory: x once. A thread adds a column's rows one after the other, so a
// sequence's bits depend on that sequence alone.
#include "kernels/cuda/pool.h"

#include "kernels/cuda/packs.cuh"
#include "ops/pool.h"

namespace headrace::cuda {
namespace {

using ops::PoolingKind;

constexpr int kThreads = 128;

// Blocks: (sequence, columns / kThreads).
template <PoolingKind kKind>
__global__ void __launch_bounds__(kThreads) pool_rows_kernel(RowsOf<const float> x, const int32_t* query_start, int columns,
                                                             RowsOf<float> y) {
  begin_step_kernel();
  const int column = int(blockIdx.y) * kThreads + int(threadIdx.x);
  if (column >= columns) return;
  const int first = query_start[blockIdx.x], end = query_start[blockIdx.x + 1];
  float value = 0;
  if constexpr (kKind == PoolingKind::cls || kKind == PoolingKind::last) {
    if (first < end) value = x[kKind == PoolingKind::cls ? first : end - 1][column];
  } else if constexpr (kKind == PoolingKind::max) {
    for (int row = first; row < end; ++row) value = row == first ? x[row][column] : fmaxf(value, x[row][column]);
  } else {
    for (int row = first; row < end; ++row) value += x[row][column];
    const float count = float(max(end - first, 1));
    value /= kKind == PoolingKind::mean ? count : sqrtf(count);
  }
  y[blockIdx.x][column] = value;
}

void run_pool_rows(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& y = args.outputs[0].tensor;
  if (y.elements() == 0) return;
  const dim3 blocks(unsigned(y.dims[0]), unsigned((y.dims[1] + kThreads - 1) / kThreads));
  const auto launch_kind = [&]<PoolingKind kKind>() {
    launch(pool_rows_kernel<kKind>, blocks, kThreads, 0, stream_of(step), rows_of<const float>(args.inputs[0].tensor),
           args.inputs[1].tensor.as<const int32_t>(), int(y.dims[1]), rows_of<float>(y));
  };
  switch (args.attrs.as<ops::PoolRowsAttrs>().kind) {
    case PoolingKind::mean: return launch_kind.template operator()<PoolingKind::mean>();
    case PoolingKind::cls: return launch_kind.template operator()<PoolingKind::cls>();
    case PoolingKind::last: return launch_kind.template operator()<PoolingKind::last>();
    case PoolingKind::max: return launch_kind.template operator()<PoolingKind::max>();
    case PoolingKind::mean_sqrt_len: return launch_kind.template operator()<PoolingKind::mean_sqrt_len>();
  }
}

// A block a row, read twice.
template <bool kAligned>
__global__ void __launch_bounds__(kMaxThreads) l2_normalize_kernel(RowsOf<const float> x, int columns, RowsOf<float> y) {
  __shared__ float partial[32];
  begin_step_kernel();
  const int first = int(threadIdx.x) * kPack, step = int(blockDim.x) * kPack;
  float squares = 0, values[kPack];
  for (int column = first; column < columns; column += step) {
    load_pack<kAligned>(x[blockIdx.x] + column, columns - column, values);
#pragma unroll
    for (int i = 0; i < kPack; ++i) squares = fmaf(values[i], values[i], squares);
  }
  const float norm = fmaxf(sqrtf(row_sum(squares, partial)), ops::kNormFloor);
  for (int column = first; column < columns; column += step) {
    load_pack<kAligned>(x[blockIdx.x] + column, columns - column, values);
#pragma unroll
    for (int i = 0; i < kPack; ++i) values[i] /= norm;
    store_pack<kAligned>(values, y[blockIdx.x] + column, columns - column);
  }
}

void run_l2_normalize(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  if (y.elements() == 0) return;
  const int64_t columns = y.dims[1];
  dispatch_bool(packs_aligned(x, columns) && packs_aligned(y, columns), [&]<bool kAligned>() {
    launch(l2_normalize_kernel<kAligned>, unsigned(y.dims[0]), unsigned(row_threads(columns)), 0, stream_of(step),
           rows_of<const float>(x), int(columns), rows_of<float>(y));
  });
}

const PluginKernel kRows[] = {
    {"pool_rows", {.name = "cuda_columns", .device = DeviceKind::cuda, .run = run_pool_rows}},
    {"l2_normalize", {.name = "cuda_row", .device = DeviceKind::cuda, .run = run_l2_normalize}},
};

}  // namespace

KernelRows pool_rows() { return {kRows, 2}; }

}  // namespace headrace::cuda
