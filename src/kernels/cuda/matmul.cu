// The rows of matmul_bf16 and matmul. By default cuBLASLt multiplies many tokens and stream_matmul few; a step's number of tokens is known
// to run() alone, so that one row has both. The rows below are row-invariant: for --deterministic, and where the library is missing, whose
// rows are then absent (cublaslt_missing() says why).
#include "kernels/cuda/matmul.h"

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/matmul_f32.h"
#include "kernels/cuda/matmul_stream.h"
#include "kernels/cuda/matmul_tile.h"
#include "ops/matmul.h"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;

// The library wants a bias of the output's type. One that was bf16 in its file loses nothing; another is rounded as the output is.
__global__ void __launch_bounds__(kThreads) narrow_bias_kernel(const float* bias, int count, __nv_bfloat16* narrow) {
  begin_step_kernel();
  const int i = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (i < count) narrow[i] = __float2bfloat16_rn(bias[i]);
}

// The scratch: the narrow bias, if there is one, then the library's workspace, aligned as the library asks.
constexpr size_t kWorkspaceAlignment = 256;
size_t narrow_bytes(bool narrow, int64_t count) { return narrow ? size_t(count) * sizeof(__nv_bfloat16) : 0; }
void* workspace_of(std::byte* after_bias) {
  const auto address = reinterpret_cast<uintptr_t>(after_bias);
  return after_bias + (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
}

const void* narrow_bias(const StepContext& step, const NodeArgs& args) {
  const WeightView& bias = args.inputs[2].weight;
  auto* narrow = reinterpret_cast<__nv_bfloat16*>(args.scratch);
  launch(narrow_bias_kernel, unsigned((bias.columns + kThreads - 1) / kThreads), kThreads, 0, stream_of(step),
         reinterpret_cast<const float*>(bias.data), int(bias.columns), narrow);
  return narrow;
}

// False where the library has no algorithm for these sizes: nothing was launched then, and the kernels of our own take them.
bool library_matmul(const StepContext& step, const NodeArgs& args) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  if (y.elements() == 0) return true;
  const bool has_bias = args.inputs.size() > 2, narrow = has_bias && y.dtype == DType::bf16;
  const void* bias = nullptr;
  if (has_bias) bias = narrow ? narrow_bias(step, args) : args.inputs[2].weight.data;
  return cublaslt_matmul({.dtype = x.dtype, .out = y.dtype, .bias = has_bias, .n = y.dims[1], .k = x.dims[1], .tokens = y.dims[0]},
                  {.x = x.data,
                   .x_stride = x.strides[0],
                   .weight = args.inputs[1].weight.data,
                   .bias = bias,
                   .y = y.data,
                   .y_stride = y.strides[0],
                   .workspace = workspace_of(args.scratch + narrow_bytes(narrow, y.dims[1]))},
                  stream_of(step));
}

// Rows that tensor cores can load 16 bytes at a time, what the library's bf16 kernels are made for.
bool rows_aligned(const NodeArgs& args) {
  const auto aligned = [](const TensorView& view) {
    return view.strides[0] * int64_t(dtype_bytes(view.dtype)) % 16 == 0 && reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
  };
  return args.inputs[0].tensor.dims[1] % 8 == 0 && aligned(args.inputs[0].tensor) && aligned(args.outputs[0].tensor);
}

void run_fastest_bf16(const StepContext& step, const NodeArgs& args, Team&) {
  // Up to here streaming is faster, launches included; then the library's tiles make more of what they read.
  constexpr int64_t kFewTokens = 4;
  if (args.inputs[0].tensor.dims[0] <= kFewTokens && streams(args)) return stream_matmul(step, args);
  if (!rows_aligned(args) || !library_matmul(step, args)) tile_matmul(step, args);
}
void run_invariant_bf16(const StepContext& step, const NodeArgs& args, Team&) {
  return streams(args) ? stream_matmul(step, args) : tile_matmul(step, args);
}
void run_fastest_f32(const StepContext& step, const NodeArgs& args, Team&) {
  if (!library_matmul(step, args)) f32_matmul(step, args);
}
void run_invariant_f32(const StepContext& step, const NodeArgs& args, Team&) { f32_matmul(step, args); }

size_t library_scratch(const NodeSizes& sizes, int) {
  const ValueType& y = sizes.outputs[0];
  const int64_t tokens = y.shape[0].eval(sizes.bindings), n = y.shape[1].eval(sizes.bindings);
  return narrow_bytes(sizes.inputs.size() > 2 && y.dtype == DType::bf16, n) + kWorkspaceAlignment + matmul_workspace_bytes(n, tokens);
}

bool bf16_operands(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  return inputs[0].dtype == DType::bf16 && inputs[1].format == Format::bf16 &&
         (outputs[0].dtype == DType::f32 || outputs[0].dtype == DType::bf16);
}
bool f32_operands(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  return inputs[0].dtype == DType::f32 && outputs[0].dtype == DType::f32;
}

// Those of the library last.
const PluginKernel kRows[] = {
    {"matmul_bf16", {.name = "cuda_mma", .device = DeviceKind::cuda, .supports = bf16_operands, .run = run_invariant_bf16}},
    {"matmul",
     {.name = "cuda_fma",
      .device = DeviceKind::cuda,
      .layout = WeightLayout::dense_f32,
      .supports = f32_operands,
      .run = run_invariant_f32}},
    {"matmul_bf16",
     {.name = "cuda_cublaslt",
      .device = DeviceKind::cuda,
      .priority = 1,
      .row_invariant = false,
      .supports = bf16_operands,
      .scratch_bytes = library_scratch,
      .run = run_fastest_bf16}},
    {"matmul",
     {.name = "cuda_cublaslt",
      .device = DeviceKind::cuda,
      .priority = 1,
      .row_invariant = false,
      .layout = WeightLayout::dense_f32,
      .supports = f32_operands,
      .scratch_bytes = library_scratch,
      .run = run_fastest_f32}},
};

}  // namespace

KernelRows matmul_rows() { return {kRows, cublaslt_missing().empty() ? 4 : 2}; }

}  // namespace headrace::cuda
