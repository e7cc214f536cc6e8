// gather_rows and select_tokens: index work of a step, bound by launch latency. A row outside x gives zeros, a slot outside the
// state gives -1, as the ops say.
#include "kernels/cuda/rows.h"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void gather_rows_kernel(RowsOf<const float> x, int64_t num_rows, const int32_t* rows, int columns, float* y,
                                   int64_t y_stride) {
  const int64_t row = rows[blockIdx.x];
  const bool inside = row >= 0 && row < num_rows;
  for (int c = threadIdx.x; c < columns; c += kThreads) {
    y[blockIdx.x * y_stride + c] = inside ? x.data[row * x.stride + c] : 0.0f;
  }
}

void run_gather_rows(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& y = args.outputs[0].tensor;
  if (y.dims[0] == 0) return;
  const TensorView& x = args.inputs[0].tensor;
  gather_rows_kernel<<<unsigned(y.dims[0]), kThreads, 0, stream_of(step)>>>(
      rows_of<const float>(x), x.dims[0], args.inputs[1].tensor.as<int32_t>(), int(y.dims[1]), y.as<float>(), y.strides[0]);
}

__global__ void select_tokens_kernel(const int32_t* source, const int32_t* last_token, int slots, int count, int32_t* ids) {
  const int t = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (t >= count) return;
  const int32_t slot = -(source[t] + 1);
  ids[t] = source[t] >= 0 ? source[t] : (slot < slots ? last_token[slot] : -1);
}

void run_select_tokens(const StepContext& step, const NodeArgs& args, Team&) {
  const int count = int(args.inputs[0].tensor.dims[0]);
  if (count == 0) return;
  select_tokens_kernel<<<unsigned((count + kThreads - 1) / kThreads), kThreads, 0, stream_of(step)>>>(
      args.inputs[0].tensor.as<int32_t>(), args.inputs[1].tensor.as<int32_t>(), int(args.inputs[1].tensor.dims[0]), count,
      args.outputs[0].tensor.as<int32_t>());
}

const PluginKernel kRows[] = {
    {"gather_rows", {.name = "cuda_block", .device = DeviceKind::cuda, .run = run_gather_rows}},
    {"select_tokens", {.name = "cuda_flat", .device = DeviceKind::cuda, .run = run_select_tokens}},
};

}  // namespace

KernelRows rows_rows() { return {kRows, 2}; }

}  // namespace headrace::cuda
