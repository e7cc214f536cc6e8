// Attention over dense batches, rotary embeddings.
#include <algorithm>
#include <cmath>

#include "onnx/lower.h"
#include "ops/rotary.h"
#include "ops/sdpa.h"

namespace headrace::onnx {
namespace {

// [B, heads, S, D] -> [B, S, heads * D]
ValueId flat(LowerContext& context, ValueId value) {
  const Dims dims = context.dims_of(value);
  if (dims.size() == 3) return value;
  return context.reshape(context.transpose(value, {0, 2, 1, 3}), {dims[0], dims[2], dims[1] * dims[3]});
}
// And back, where the output has four axes.
ValueId as_output(LowerContext& context, ValueId value) {
  const Dims to = context.output_dims(0);
  if (to.size() == 3) return value;
  return context.transpose(context.reshape(value, {to[0], to[2], to[1], to[3]}), {0, 2, 1, 3});
}

// Operators grow attributes: one that is not among these means something else.
bool has_only(const LowerContext& context, std::initializer_list<std::string_view> known) {
  const auto is_known = [&](const auto& entry) { return std::ranges::find(known, entry.first) != known.end(); };
  return std::ranges::all_of(context.node().attributes, is_known);
}

// A mask's rows that see nothing are 0 here and NaN to a softmax, and `causal` counts from the first key: what needs either is the host's.
bool attention(LowerContext& context) {
  const Result<int64_t> causal = context.integer("is_causal", 0);
  const Result<int64_t> q_heads = context.integer("q_num_heads", 0), kv_heads = context.integer("kv_num_heads", 0);
  const Result<float> scale = context.number("scale", 0.0f), softcap = context.number("softcap", 0.0f);
  if (!has_only(context, {"is_causal", "kv_num_heads", "q_num_heads", "scale", "softcap", "softmax_precision", "qk_matmul_output_mode"})) {
    return false;
  }
  if (!context.all_f32() || !causal || !q_heads || !kv_heads || !scale || !softcap || *softcap != 0) return false;
  for (int i = 3; i < context.num_inputs(); ++i) {
    if (context.has_input(i)) return false;
  }
  for (int i = 1; i < context.num_outputs(); ++i) {
    if (context.wants_output(i)) return false;
  }
  const Dims q = context.dims(0), k = context.dims(1);
  const bool split = q.size() == 4;
  const int64_t heads = split ? q[1] : *q_heads, shared = split ? k[1] : *kv_heads;
  if (heads < 1 || shared < 1 || heads % shared != 0) return false;
  const int64_t queries = q[q.size() - 2], keys = k[k.size() - 2], width = split ? q[3] : q[2] / heads;
  if (width < 1 || keys < 1 || (*causal != 0 && queries != keys)) return false;
  const ops::SdpaAttrs attrs{.heads = static_cast<int32_t>(heads),
                             .kv_heads = static_cast<int32_t>(shared),
                             .scale = context.has("scale") ? *scale : 1.0f / std::sqrt(static_cast<float>(width)),
                             .causal = *causal != 0};
  const ValueId y =
      context.emit(ops::sdpa, attrs, {flat(context, context.input(0)), flat(context, context.input(1)), flat(context, context.input(2))});
  context.set(0, as_output(context, y));
  return true;
}

bool rotary_embedding(LowerContext& context) {
  const Result<int64_t> interleaved = context.integer("interleaved", 0), num_heads = context.integer("num_heads", 0),
                        given_width = context.integer("rotary_embedding_dim", 0);
  if (!has_only(context, {"interleaved", "num_heads", "rotary_embedding_dim"})) return false;
  if (!context.all_f32_but(3) || !interleaved || !num_heads || !given_width) return false;
  const Dims x = context.dims(0);
  const bool split = x.size() == 4;
  const int64_t heads = split ? x[1] : *num_heads;
  if (heads < 1 || (!split && x[2] % heads != 0)) return false;
  const int64_t head_dim = split ? x[3] : x[2] / heads;
  ValueId cos = context.input(1), sin = context.input(2);
  if (context.has_input(3)) {
    cos = context.emit(ops::gather, ops::GatherAttrs{0}, {cos, context.input(3)});
    sin = context.emit(ops::gather, ops::GatherAttrs{0}, {sin, context.input(3)});
  }
  const ops::RotaryAttrs attrs{.heads = static_cast<int32_t>(heads),
                               .head_dim = static_cast<int32_t>(head_dim),
                               .rotary_dim = static_cast<int32_t>(*given_width == 0 ? head_dim : *given_width),
                               .interleaved = *interleaved != 0};
  context.set(0, as_output(context, context.emit(ops::rotary, attrs, {flat(context, context.input(0)), cos, sin})));
  return true;
}

constexpr LowerRow kRows[] = {
    {"Attention", attention},
    {"RotaryEmbedding", rotary_embedding},
};

}  // namespace

std::span<const LowerRow> lower_attention();
std::span<const LowerRow> lower_attention() { return kRows; }

}  // namespace headrace::onnx
