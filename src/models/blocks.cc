#include "models/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/kv_groups.h"
#include "ops/attention.h"
#include "ops/embed.h"
#include "ops/layer_norm.h"
#include "ops/logprobs.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/rms_norm.h"
#include "ops/rows.h"
#include "ops/sample.h"
#include "ops/select_tokens.h"

namespace headrace::models {
namespace {

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Status check_limits(const StepLimits& limits) {
  for (const int64_t count :
       {limits.max_tokens, limits.max_seqs, limits.max_blocks, limits.num_slots, limits.max_logit_rows}) {
    if (count < 1 || count > kMaxStepCount) {
      return make_status(Code::invalid_argument,
                         "step limits: want counts from 1 to {}, got {} tokens, {} sequences, {} blocks, {} slots, {} logit rows",
                         kMaxStepCount, limits.max_tokens, limits.max_seqs, limits.max_blocks, limits.num_slots,
                         limits.max_logit_rows);
    }
  }
  return {};
}

}  // namespace

StepProgram::StepProgram(const BuildContext& context, std::vector<KvSpec> layer_kv)
    : context_(context), layer_kv_(std::move(layer_kv)), group_of_layer_(group_of_layer(layer_kv_)) {
  const StepLimits& limits = context.limits;
  if (Status status = check_limits(limits); !status.ok()) {
    builder_.fail(std::move(status));
    return;
  }

  Graph& graph = builder_.graph;
  const Dim tokens = Dim::symbol(graph.symbols.add("T", limits.max_tokens));
  const Dim seqs = Dim::symbol(graph.symbols.add("S", limits.max_seqs));
  const Dim rows = Dim::symbol(graph.symbols.add("R", limits.max_logit_rows));
  const Dim blocks = Dim::symbol(graph.symbols.add("B", limits.max_blocks));
  const Dim biases = Dim::symbol(graph.symbols.add("E", kMaxStepCount));
  const Dim history = Dim::symbol(graph.symbols.add("H", kMaxStepCount));

  token_src_ = input("token_src", DType::i32, {tokens});
  positions_ = input("positions", DType::i32, {tokens});
  query_start_ = input("query_start", DType::i32, {seqs + 1});
  context_len_ = input("context_len", DType::i32, {seqs});
  logit_rows_ = input("logit_rows", DType::i32, {rows});
  for (const char* name : {"temperature", "top_p", "min_p", "typical_p", "repetition_penalty", "frequency_penalty",
                           "presence_penalty"}) {
    sampling_.push_back(input(name, DType::f32, {rows}));
  }
  for (const char* name : {"top_k", "seed_lo", "seed_hi", "stream", "sample_pos", "sample_slot"}) {
    sampling_.push_back(input(name, DType::i32, {rows}));
  }
  sampling_.push_back(input("bias_start", DType::i32, {rows + 1}));
  sampling_.push_back(input("bias_token", DType::i32, {biases}));
  sampling_.push_back(input("bias_value", DType::f32, {biases}));
  sampling_.push_back(input("history_start", DType::i32, {rows + 1}));
  sampling_.push_back(input("output_start", DType::i32, {rows}));
  sampling_.push_back(input("history", DType::i32, {history}));
  target_ = input("target", DType::i32, {rows});
  num_logprobs_ = input("num_logprobs", DType::i32, {rows});
  const int32_t groups = group_of_layer_.empty()
                             ? 0
                             : *std::max_element(group_of_layer_.begin(), group_of_layer_.end()) + 1;
  for (int32_t group = 0; group < groups; ++group) {
    kv_slot_.push_back(input(fmt::format("kv_slot.{}", group), DType::i32, {tokens}));
    block_table_.push_back(input(fmt::format("block_table.{}", group), DType::i32, {seqs, blocks}));
  }
  for (size_t layer = 0; layer < layer_kv_.size(); ++layer) {
    kv_state_.push_back(graph.add_state(fmt::format("kv.{}", layer), ValueType::kv_layer(layer_kv_[layer]),
                                        static_cast<int32_t>(layer)));
  }
  last_token_ = graph.add_state("last_token", ValueType::tensor(DType::i32, {limits.num_slots}));
}

ValueId StepProgram::input(std::string name, DType dtype, Shape shape) {
  return builder_.graph.add_input(std::move(name), dtype, shape);
}

ValueId StepProgram::weight(const std::string& tensor, std::vector<int64_t> shape, std::string value_name) {
  if (!builder_.ok()) return kNone;
  const TensorInfo* info = context_.lookup(tensor);
  if (info == nullptr) {
    builder_.fail(make_status(Code::malformed, "tensor {}: want shape {}, the checkpoint has no such tensor", tensor,
                              shape_text(shape)));
    return kNone;
  }
  if (info->shape != shape) {
    builder_.fail(make_status(Code::malformed, "tensor {}: want shape {} (by the configuration), got {}", tensor,
                              shape_text(shape), shape_text(info->shape)));
    return kNone;
  }
  const FormatInfo& format = format_info(info->format);
  if (shape.back() % format.block_elements != 0) {
    builder_.fail(make_status(Code::malformed, "tensor {}: want rows of whole {} blocks of {}, got rows of {}", tensor,
                              format.name, format.block_elements, shape.back()));
    return kNone;
  }
  Shape dims;
  for (const int64_t dim : shape) dims.push_back(dim);
  return builder_.graph.add_weight(value_name.empty() ? tensor : std::move(value_name), info->format, dims,
                                   WeightRecipe{{{tensor, 0, shape[0]}}});
}

int64_t StepProgram::width(ValueId x) const {
  if (x == kNone) return 1;  // after an error
  const Shape& shape = builder_.graph.values[x].type.shape;
  return shape[shape.rank() - 1].constant();
}

ValueId StepProgram::embed(const std::string& module, int64_t vocab_size, int64_t hidden_size, float scale) {
  const ValueId ids = builder_.node(ops::select_tokens, {}, {token_src_, last_token_}, "select_tokens");
  const ValueId table = weight(module + ".weight", {vocab_size, hidden_size});
  return builder_.node(ops::embed, ops::EmbedAttrs{scale}, {ids, table}, module);
}

ValueId StepProgram::linear(ValueId x, const std::string& module, int64_t out_features, bool bias) {
  std::vector<ValueId> inputs = {x, weight(module + ".weight", {out_features, width(x)})};
  if (bias) inputs.push_back(weight(module + ".bias", {out_features}));
  return builder_.node(ops::matmul, ops::MatmulAttrs{}, std::move(inputs), module);
}

ValueId StepProgram::rms_norm(ValueId x, const std::string& module, double eps, double offset) {
  const ops::RmsNormAttrs attrs{static_cast<float>(eps), static_cast<float>(offset)};
  return builder_.node(ops::rms_norm, attrs, {x, weight(module + ".weight", {width(x)})}, module);
}

ValueId StepProgram::head_norm(ValueId x, const std::string& module, int64_t heads, double eps, double offset) {
  const ops::RmsNormAttrs attrs{static_cast<float>(eps), static_cast<float>(offset), static_cast<int32_t>(heads)};
  return builder_.node(ops::rms_norm, attrs, {x, weight(module + ".weight", {width(x) / heads})}, module);
}

ValueId StepProgram::add(ValueId residual, ValueId branch, const std::string& name) {
  return builder_.node(ops::add, ops::ElementwiseAttrs{}, {residual, branch}, name);
}

ValueId StepProgram::gated_mlp(ValueId x, const std::string& module, int64_t intermediate_size,
                               ops::UnaryKind act, bool bias) {
  const ValueId gate = linear(x, module + ".gate_proj", intermediate_size, bias);
  const ValueId up = linear(x, module + ".up_proj", intermediate_size, bias);
  const ValueId active = builder_.node(ops::unary, ops::UnaryAttrs{act}, {gate}, module + ".act_fn");
  const ValueId product = builder_.node(ops::mul, ops::ElementwiseAttrs{}, {active, up}, module + ".product");
  return linear(product, module + ".down_proj", width(x), bias);
}

Rope StepProgram::rope(const ops::RopeTable& table, int64_t head_dim, bool interleaved, const std::string& name) {
  const auto pairs = static_cast<int64_t>(table.inv_freq.size());
  Rope rope;
  rope.inv_freq = builder_.graph.add_constant(name, DType::f32, {pairs}, table.inv_freq);
  rope.attrs.head_dim = static_cast<int32_t>(head_dim);
  rope.attrs.rotary_dim = static_cast<int32_t>(2 * pairs);
  rope.attrs.interleaved = interleaved;
  rope.attrs.attention_factor = static_cast<float>(table.attention_factor);
  return rope;
}

ValueId StepProgram::attention(ValueId q, ValueId k, ValueId v, const Rope& rope, const AttentionTraits& traits,
                               int32_t layer, const std::string& module) {
  const KvSpec& kv = layer_kv_[layer];
  const int32_t group = group_of_layer_[layer];
  if (!builder_.ok()) return kNone;

  ops::RopeAttrs q_rope = rope.attrs, k_rope = rope.attrs;
  q_rope.heads = static_cast<int32_t>(traits.heads);
  k_rope.heads = kv.heads;
  q = builder_.node(ops::rope, q_rope, {q, positions_, rope.inv_freq}, module + ".q_rope");
  k = builder_.node(ops::rope, k_rope, {k, positions_, rope.inv_freq}, module + ".k_rope");
  builder_.effect(ops::kv_write, ops::KvWriteAttrs{kv.heads, kv.head_dim}, {k, v, kv_slot_[group], kv_state_[layer]},
                  module + ".kv_write");
  ops::AttentionAttrs attrs;
  attrs.heads = q_rope.heads;
  attrs.kv_heads = kv.heads;
  attrs.head_dim = kv.head_dim;
  attrs.scale = static_cast<float>(traits.scale > 0 ? traits.scale : 1.0 / std::sqrt(static_cast<double>(kv.head_dim)));
  attrs.softcap = static_cast<float>(traits.softcap);
  attrs.window = kv.window;
  return builder_.node(ops::attention, attrs,
                       {q, kv_state_[layer], query_start_, context_len_, block_table_[group]}, module);
}

void StepProgram::hidden(int32_t layer, ValueId x) { builder_.output(fmt::format("hidden.{}", layer), x); }

ValueId StepProgram::logit_rows(ValueId x) {
  return builder_.node(ops::gather_rows, ops::GatherRowsAttrs{}, {x, logit_rows_}, "gather_rows");
}

void StepProgram::logits_and_tokens(ValueId x, const std::string& weight_name, int64_t vocab_size,
                                    double softcap) {
  // The embedding and a tied head read one tensor in two layouts: two values with one recipe.
  const ValueId head = weight(weight_name, {vocab_size, width(x)}, "lm_head.weight");
  ValueId logits = builder_.node(ops::matmul, ops::MatmulAttrs{}, {x, head}, "lm_head");
  if (softcap > 0) {
    const ops::UnaryAttrs attrs{ops::UnaryKind::softcap, static_cast<float>(softcap)};
    logits = builder_.node(ops::unary, attrs, {logits}, "softcap");
  }
  std::vector<ValueId> inputs = {logits};
  inputs.insert(inputs.end(), sampling_.begin(), sampling_.end());
  inputs.push_back(last_token_);
  const ValueId tokens = builder_.node(ops::sample, ops::SampleAttrs{}, std::move(inputs), "sample");
  builder_.output("logits", logits);
  builder_.output("tokens", tokens);
  const std::vector<ValueId> scores =
      builder_.nodes(ops::logprobs, ops::LogprobsAttrs{}, {logits, tokens, target_, num_logprobs_}, "logprobs", 3);
  builder_.output("logprobs", scores[0]);
  builder_.output("top_ids", scores[1]);
  builder_.output("top_logprobs", scores[2]);
}

ValueId StepProgram::rows_of(ValueId ids, const std::string& module, int64_t rows, int64_t width) {
  return builder_.node(ops::embed, ops::EmbedAttrs{}, {ids, weight(module + ".weight", {rows, width})}, module);
}

ValueId StepProgram::token_rows(const std::string& module, int64_t rows, int64_t width) {
  return rows_of(token_src_, module, rows, width);
}

ValueId StepProgram::position_rows(const std::string& module, int64_t rows, int64_t width) {
  return rows_of(positions_, module, rows, width);
}

ValueId StepProgram::segment_rows(const std::string& module, int64_t rows, int64_t width) {
  if (!builder_.ok()) return kNone;
  const Dim tokens = builder_.graph.values[token_src_].type.shape[0];
  return rows_of(input("token_type", DType::i32, {tokens}), module, rows, width);
}

ValueId StepProgram::layer_norm(ValueId x, const std::string& module, double eps) {
  const bool old = context_.lookup(module + ".weight") == nullptr && context_.lookup(module + ".gamma") != nullptr;
  return builder_.node(ops::layer_norm, ops::LayerNormAttrs{static_cast<float>(eps)},
                       {x, weight(module + (old ? ".gamma" : ".weight"), {width(x)}),
                        weight(module + (old ? ".beta" : ".bias"), {width(x)})},
                       module);
}

ValueId StepProgram::activation(ValueId x, ops::UnaryKind kind, const std::string& name) {
  return builder_.node(ops::unary, ops::UnaryAttrs{kind}, {x}, name);
}

ValueId StepProgram::attention_bidirectional(ValueId q, ValueId k, ValueId v, int32_t heads, const std::string& module) {
  ops::AttentionAttrs attrs;
  attrs.heads = attrs.kv_heads = heads;
  attrs.head_dim = static_cast<int32_t>(width(q) / heads);
  attrs.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attrs.head_dim)));
  attrs.causal = false;
  return builder_.node(ops::attention_ragged, attrs, {q, k, v, query_start_}, module);
}

void StepProgram::embeddings(ValueId x, const Pooling& pooling) {
  ValueId pooled = builder_.node(ops::pool_rows, ops::PoolRowsAttrs{pooling.kind}, {x, query_start_}, "pooling");
  if (pooling.normalize) pooled = builder_.node(ops::l2_normalize, ops::L2NormalizeAttrs{}, {pooled}, "normalize");
  builder_.output("embeddings", pooled);
}

KvSpec self_attention_kv(const BuildContext& context, int64_t heads, int64_t head_dim, int64_t window) {
  return {KvKind::self, static_cast<int32_t>(heads), static_cast<int32_t>(head_dim), static_cast<int32_t>(window),
          context.policy.kv};
}

double count_parameters(const Graph& graph, const TensorLookup& lookup) {
  std::set<std::string_view> seen;
  double count = 0;
  for (const Value& value : graph.values) {
    for (const WeightPart& part : value.recipe.parts) {
      if (!seen.insert(part.source).second) continue;
      const TensorInfo* info = lookup(part.source);
      if (info == nullptr) continue;
      double elements = 1;
      for (const int64_t dim : info->shape) elements *= static_cast<double>(dim);
      count += elements;
    }
  }
  return count;
}

Result<std::vector<int32_t>> read_eos_token_ids(const io::ConfigMap& config, int64_t vocab_size) {
  const auto found = config.values().find("eos_token_id");
  std::vector<int64_t> ids;
  if (found != config.values().end() && std::holds_alternative<std::vector<int64_t>>(found->second)) {
    ids = std::get<std::vector<int64_t>>(found->second);
  } else if (config.has("eos_token_id")) {
    HR_ASSIGN_OR_RETURN(const int64_t id, config.get_int("eos_token_id", 0, vocab_size - 1));
    ids = {id};
  }
  std::vector<int32_t> checked;
  for (const int64_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return error(Code::malformed, "config eos_token_id: want ids from 0 to {}, got {}", vocab_size - 1, id);
    }
    checked.push_back(static_cast<int32_t>(id));
  }
  return checked;
}

}  // namespace headrace::models
