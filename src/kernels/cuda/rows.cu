// gather_rows, select_tokens and embed: the index work of a step, bound by launch latency, for long prompts by memory. A row outside x
// gives zeros, a slot outside the state gives -1, an id outside the table gives zeros, as the ops say.
#include "kernels/cuda/rows.h"

#include <cuda_fp16.h>

#include "kernels/cuda/packs.cuh"
#include "ops/embed.h"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 128;

__device__ inline float to_float(__half value) { return __half2float(value); }

// Blocks for rows of `columns`: (row, packs of a row / kThreads).
dim3 pack_blocks(int64_t rows, int64_t columns) {
  return dim3(unsigned(rows), unsigned((columns + kThreads * kPack - 1) / (kThreads * kPack)));
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) gather_rows_kernel(RowsOf<const T> x, int64_t num_rows, const int32_t* rows, int columns,
                                                               RowsOf<T> y) {
  begin_step_kernel();
  const int column = (int(blockIdx.y) * kThreads + int(threadIdx.x)) * kPack;
  const int left = columns - column;
  if (left <= 0) return;
  const int64_t row = rows[blockIdx.x];
  float values[kPack] = {};
  if (row >= 0 && row < num_rows) load_pack<kAligned>(x[row] + column, left, values);
  store_pack<kAligned>(values, y[blockIdx.x] + column, left);
}

void run_gather_rows(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& y = args.outputs[0].tensor;
  if (y.elements() == 0) return;
  const TensorView& x = args.inputs[0].tensor;
  const int64_t columns = y.dims[1];
  dispatch_float(x.dtype, [&]<class T>() {
    dispatch_bool(packs_aligned(x, columns) && packs_aligned(y, columns), [&]<bool kAligned>() {
      launch(gather_rows_kernel<T, kAligned>, pack_blocks(y.dims[0], columns), kThreads, 0, stream_of(step), rows_of<const T>(x),
             x.dims[0], args.inputs[1].tensor.as<const int32_t>(), int(columns), rows_of<T>(y));
    });
  });
}

bool float_rows(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  return f32_or_bf16(inputs[0]) && inputs[0].dtype == outputs[0].dtype;
}

__global__ void __launch_bounds__(kThreads) select_tokens_kernel(const int32_t* source, const int32_t* last_token, int slots, int count,
                                                                 int32_t* ids) {
  begin_step_kernel();
  const int t = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (t >= count) return;
  const int32_t slot = -(source[t] + 1);
  ids[t] = source[t] >= 0 ? source[t] : (slot < slots ? last_token[slot] : -1);
}

void run_select_tokens(const StepContext& step, const NodeArgs& args, Team&) {
  const int count = int(args.inputs[0].tensor.dims[0]);
  if (count == 0) return;
  launch(select_tokens_kernel, unsigned((count + kThreads - 1) / kThreads), kThreads, 0, stream_of(step),
         args.inputs[0].tensor.as<const int32_t>(), args.inputs[1].tensor.as<const int32_t>(), int(args.inputs[1].tensor.dims[0]), count,
         args.outputs[0].tensor.as<int32_t>());
}

// The table is [vocabulary, columns] without gaps.
template <class T, class Y, bool kAligned>
__global__ void __launch_bounds__(kThreads) embed_kernel(const int32_t* ids, const T* table, int64_t vocabulary, int columns, float scale,
                                                         RowsOf<Y> y) {
  begin_step_kernel();
  const int column = (int(blockIdx.y) * kThreads + int(threadIdx.x)) * kPack;
  const int left = columns - column;
  if (left <= 0) return;
  const int64_t id = ids[blockIdx.x];
  float values[kPack] = {};
  if (id >= 0 && id < vocabulary) {
    const T* row = table + id * columns + column;
    if constexpr (std::is_same_v<T, __half>) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) values[i] = i < left ? to_float(row[i]) : 0.0f;
    } else {
      load_pack<kAligned>(row, left, values);
    }
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) values[i] *= scale;
  store_pack<kAligned>(values, y[blockIdx.x] + column, left);
}

template <class T>
void launch_embed(const StepContext& step, const NodeArgs& args) {
  const TensorView& ids = args.inputs[0].tensor;
  const WeightView& table = args.inputs[1].weight;
  const TensorView& y = args.outputs[0].tensor;
  dispatch_float(y.dtype, [&]<class Y>() {
    dispatch_bool(packs_aligned(y, table.columns), [&]<bool kAligned>() {
      launch(embed_kernel<T, Y, kAligned>, pack_blocks(y.dims[0], table.columns), kThreads, 0, stream_of(step), ids.as<const int32_t>(),
             reinterpret_cast<const T*>(table.data), table.rows, int(table.columns), args.attrs.as<ops::EmbedAttrs>().scale,
             rows_of<Y>(y));
    });
  });
}

// Reads the table as its layout stores it.
void run_embed(const StepContext& step, const NodeArgs& args, Team&) {
  if (args.outputs[0].tensor.elements() == 0) return;
  const WeightView& table = args.inputs[1].weight;
  if (table.layout == WeightLayout::dense_f32 || table.format == Format::f32) return launch_embed<float>(step, args);
  if (table.format == Format::bf16) return launch_embed<__nv_bfloat16>(step, args);
  return launch_embed<__half>(step, args);
}

bool float_table(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  const Format format = inputs[1].format;
  return f32_or_bf16(outputs[0]) && (format == Format::f32 || format == Format::bf16 || format == Format::f16);
}
bool any_table(std::span<const ValueType>, std::span<const ValueType> outputs, const Attrs&) { return f32_or_bf16(outputs[0]); }

const PluginKernel kRows[] = {
    {"gather_rows", {.name = "cuda_packs", .device = DeviceKind::cuda, .supports = float_rows, .run = run_gather_rows}},
    {"select_tokens", {.name = "cuda_flat", .device = DeviceKind::cuda, .run = run_select_tokens}},
    {"embed", {.name = "cuda_packs", .device = DeviceKind::cuda, .priority = 1, .supports = float_table, .run = run_embed}},
    {"embed",
     {.name = "cuda_decoded",
      .device = DeviceKind::cuda,
      .layout = WeightLayout::dense_f32,
      .supports = any_table,
      .run = run_embed}},
};

}  // namespace

KernelRows rows_rows() { return {kRows, 4}; }

}  // namespace headrace::cuda
