// matmul_bf16 and matmul on cuBLASLt: bound by the tensor cores for long prompts, by reading the weight for small batches. Without the
// library both rows are absent and cublaslt_missing() says why.
#include "kernels/cuda/matmul.h"

#include "kernels/cuda/cublaslt.h"
#include "ops/matmul.h"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;

// The library wants a bias of the output's type; this one was bf16 before it was widened, so nothing is lost.
__global__ void __launch_bounds__(kThreads) narrow_bias_kernel(const float* bias, int count, __nv_bfloat16* narrow) {
  begin_step_kernel();
  const int i = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (i < count) narrow[i] = __float2bfloat16_rn(bias[i]);
}

// In the scratch behind the workspace.
const void* narrow_bias(const StepContext& step, const NodeArgs& args) {
  const WeightView& bias = args.inputs[2].weight;
  auto* narrow = reinterpret_cast<__nv_bfloat16*>(args.scratch + kMatmulWorkspaceBytes);
  launch(narrow_bias_kernel, unsigned((bias.columns + kThreads - 1) / kThreads), kThreads, 0, stream_of(step),
         reinterpret_cast<const float*>(bias.data), int(bias.columns), narrow);
  return narrow;
}

void run_library(const StepContext& step, const NodeArgs& args, Team&) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  if (y.elements() == 0) return;
  const bool has_bias = args.inputs.size() > 2;
  const void* bias = nullptr;
  if (has_bias) bias = y.dtype == DType::f32 ? args.inputs[2].weight.data : narrow_bias(step, args);
  cublaslt_matmul({.dtype = x.dtype, .out = y.dtype, .bias = has_bias, .n = y.dims[1], .k = x.dims[1], .tokens = y.dims[0]},
                  {.x = x.data,
                   .x_stride = x.strides[0],
                   .weight = args.inputs[1].weight.data,
                   .bias = bias,
                   .y = y.data,
                   .y_stride = y.strides[0],
                   .workspace = args.scratch},
                  stream_of(step));
}

size_t library_scratch(const NodeSizes& sizes, int) {
  const bool narrow = sizes.inputs.size() > 2 && sizes.outputs[0].dtype == DType::bf16;
  return kMatmulWorkspaceBytes + (narrow ? size_t(sizes.inputs[2].shape[0].constant()) * sizeof(__nv_bfloat16) : 0);
}

bool library_takes_bf16(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs&) {
  const DType out = outputs[0].dtype;
  if (out == DType::bf16 && inputs.size() > 2 && inputs[2].format != Format::bf16) return false;
  return inputs[0].dtype == DType::bf16 && inputs[1].format == Format::bf16 && (out == DType::f32 || out == DType::bf16);
}

constexpr Kernel library_row(WeightLayout layout) {
  return {.name = "cuda_cublaslt",
          .device = DeviceKind::cuda,
          .priority = 2,
          .row_invariant = false,
          .layout = layout,
          .supports = layout == WeightLayout::row_major ? library_takes_bf16 : nullptr,
          .scratch_bytes = library_scratch,
          .run = run_library};
}

const PluginKernel kLibraryRows[] = {
    {"matmul_bf16", library_row(WeightLayout::row_major)},
    {"matmul", library_row(WeightLayout::dense_f32)},
};

}  // namespace

KernelRows matmul_rows() { return {kLibraryRows, cublaslt_missing().empty() ? 2 : 0}; }

}  // namespace headrace::cuda
