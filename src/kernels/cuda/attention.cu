// The rows of attention and attention_ragged: which kernel takes which types, and how the op's arguments reach the device.
#include "kernels/cuda/attention.h"

#include <algorithm>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_flash.h"
#include "kernels/cuda/attention_generic.h"
#include "kernels/cuda/attention_split.h"

namespace headrace::cuda {

AttentionShape shape_of(const ops::AttentionAttrs& attrs) {
  AttentionShape shape{.heads = attrs.heads,
                       .kv_heads = attrs.kv_heads,
                       .group = attrs.heads / attrs.kv_heads,
                       .head_dim = attrs.head_dim,
                       .scale = attrs.scale,
                       .softcap = attrs.softcap,
                       .window = attrs.window,
                       .causal = attrs.causal,
                       .has_sinks = !attrs.sinks.empty(),
                       .sinks = {}};
  std::copy(attrs.sinks.begin(), attrs.sinks.end(), shape.sinks);
  return shape;
}

Sequences sequences_of(const NodeArgs& args) {
  const TensorView& table = args.inputs[4].tensor;
  return {args.inputs[2].tensor.as<int32_t>(), args.inputs[3].tensor.as<int32_t>(), table.as<int32_t>(), int(table.dims[0]),
          table.strides[0]};
}

namespace {

bool supports_generic(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  return is_activation(inputs[0].dtype) && outputs[0].dtype == inputs[0].dtype && attrs.as<ops::AttentionAttrs>().sinks.size() <= kMaxSinks;
}

bool supports_ragged(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  return supports_generic(inputs, outputs, attrs) && inputs[1].dtype == inputs[0].dtype && inputs[2].dtype == inputs[0].dtype;
}

bool supports_tensor_cores(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) {
  const auto& a = attrs.as<ops::AttentionAttrs>();
  const bool all_bf16 = inputs[0].dtype == DType::bf16 && outputs[0].dtype == DType::bf16 && inputs[1].kv.dtype == DType::bf16;
  return all_bf16 && (a.head_dim == 64 || a.head_dim == 128 || a.head_dim == 256) && a.scale > 0 && a.sinks.size() <= kMaxSinks;
}

void run_split(const StepContext& step, const NodeArgs& args, Team&) {
  if (args.inputs[0].tensor.dims[0] == 0 || args.inputs[4].tensor.dims[0] == 0) return;
  launch_attention_split(step, args, /*every=*/true);
}

// Each sequence by the kernel that its rows suit; both look at all of them. Where the dims leave no room for a sequence with many rows,
// or hold no more rows than sequences, as steps of decoding do, one launch takes all.
void run_tensor_cores(const StepContext& step, const NodeArgs& args, Team&) {
  const int64_t tokens = args.inputs[0].tensor.dims[0], sequences = args.inputs[4].tensor.dims[0];
  if (tokens == 0 || sequences == 0) return;
  const auto& attrs = args.attrs.as<ops::AttentionAttrs>();
  const bool one = tokens <= sequences || tokens * (attrs.heads / attrs.kv_heads) <= kFewRows;
  if (!one) launch_attention_flash(step, args);
  launch_attention_split(step, args, one);
}

const PluginKernel kRows[] = {
    {"attention",
     {.name = "cuda_flash",
      .device = DeviceKind::cuda,
      .priority = 2,
      .row_invariant = false,
      .supports = supports_tensor_cores,
      .scratch_bytes = attention_split_scratch,
      .run = run_tensor_cores}},
    {"attention",
     {.name = "cuda_split",
      .device = DeviceKind::cuda,
      .priority = 1,
      .supports = supports_tensor_cores,
      .scratch_bytes = attention_split_scratch,
      .run = run_split}},
    {"attention", {.name = "cuda_generic", .device = DeviceKind::cuda, .supports = supports_generic, .run = run_attention_generic}},
    {"attention_ragged", {.name = "cuda_generic", .device = DeviceKind::cuda, .supports = supports_ragged, .run = run_attention_ragged}},
};

}  // namespace

KernelRows attention_rows() { return {kRows, int(std::size(kRows))}; }

}  // namespace headrace::cuda
