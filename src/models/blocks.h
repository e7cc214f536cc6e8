#pragma once
// The blocks that a decoder's `step` and an encoder's `embed` program are written with. One StepProgram holds the program
// while a model file writes it, layer by layer; the first error is kept and later calls do nothing, so that a model reads
// top to bottom.
//
// `module` is a Hugging Face module path ("model.layers.3.self_attn.q_proj"): the weight read is `module + ".weight"`, the
// node carries the path as its name. Every weight must be in the checkpoint with exactly the shape that the block wants.

#include <string>
#include <vector>

#include "graph/builder.h"
#include "models/model.h"
#include "models/pooling_config.h"
#include "ops/elementwise.h"
#include "ops/rope.h"

namespace headrace::models {

struct AttentionTraits {
  int64_t heads = 0;
  double scale = 0;    // 0: 1 / sqrt(head_dim)
  double softcap = 0;  // 0: none
};

struct Rope {
  ValueId inv_freq = kNone;
  ops::RopeAttrs attrs;  // all but `heads`
};

class StepProgram {
 public:
  // Declares the step's inputs (StepPlan's fields; kv_slot and block_table once per KV group, "kv_slot.0") and the state
  // "last_token". `context` must outlive the program.
  StepProgram(const BuildContext& context, std::vector<KvSpec> layer_kv);

  // ids i32 [T] (fresh or sampled last) -> [T, hidden_size], times `scale`.
  ValueId embed(const std::string& module, int64_t vocab_size, int64_t hidden_size, float scale = 1.0f);
  // [rows, in] -> [rows, out_features]
  ValueId linear(ValueId x, const std::string& module, int64_t out_features, bool bias);
  // `offset` 1: the family stores weight - 1.
  ValueId rms_norm(ValueId x, const std::string& module, double eps, double offset = 0.0);
  // rms_norm of each of x's heads by itself.
  ValueId head_norm(ValueId x, const std::string& module, int64_t heads, double eps, double offset = 0.0);
  ValueId add(ValueId residual, ValueId branch, const std::string& name);
  // down_proj(act(gate_proj(x)) * up_proj(x))
  ValueId gated_mlp(ValueId x, const std::string& module, int64_t intermediate_size, ops::UnaryKind act, bool bias);

  // `name`: of the constant that holds the table; a program with two has two names.
  Rope rope(const ops::RopeTable& table, int64_t head_dim, bool interleaved, const std::string& name = "inv_freq");
  // q [T, heads * head_dim], k and v [T, kv_heads * head_dim], not yet rotated. Rotates, writes the layer's KV and attends.
  ValueId attention(ValueId q, ValueId k, ValueId v, const Rope& rope, const AttentionTraits& traits, int32_t layer,
                    const std::string& module);

  // The residual stream after `layer` layers (0: the embeddings), requestable as "hidden.<layer>".
  void hidden(int32_t layer, ValueId x);
  // The rows that want logits: [T, hidden] -> [R, hidden].
  ValueId logit_rows(ValueId x);
  // The logits [R, vocab_size], output "logits", the tokens sampled from them, output "tokens", and what `logprobs` says of
  // both, outputs "logprobs", "top_ids" and "top_logprobs". softcap 0: none.
  void logits_and_tokens(ValueId x, const std::string& weight_name, int64_t vocab_size, double softcap = 0.0);

  // ---- encoders: a step holds whole sequences, and no KV

  // The rows of a table [rows, width] that the ids, positions or segments of the tokens name -> [T, width].
  ValueId token_rows(const std::string& module, int64_t rows, int64_t width);
  ValueId position_rows(const std::string& module, int64_t rows, int64_t width);
  ValueId segment_rows(const std::string& module, int64_t rows, int64_t width);
  // `module`.weight and .bias, which old checkpoints name gamma and beta.
  ValueId layer_norm(ValueId x, const std::string& module, double eps);
  ValueId activation(ValueId x, ops::UnaryKind kind, const std::string& name);
  // q, k, v [T, heads * head_dim]: every token of a sequence sees all of it.
  ValueId attention_bidirectional(ValueId q, ValueId k, ValueId v, int32_t heads, const std::string& module);
  // One vector for each sequence, output "embeddings".
  void embeddings(ValueId x, const Pooling& pooling);

  Result<Graph> finish() { return builder_.finish(); }

 private:
  ValueId input(std::string name, DType dtype, Shape shape);
  // A checkpoint tensor whose shape is checked. `value_name` tells two uses of one tensor apart.
  ValueId weight(const std::string& tensor, std::vector<int64_t> shape, std::string value_name = {});
  int64_t width(ValueId x) const;
  ValueId rows_of(ValueId ids, const std::string& module, int64_t rows, int64_t width);

  const BuildContext& context_;
  GraphBuilder builder_;
  std::vector<KvSpec> layer_kv_;
  std::vector<int32_t> group_of_layer_;
  std::vector<ValueId> kv_state_;                // by layer
  std::vector<ValueId> kv_slot_, block_table_;   // by group
  ValueId token_src_ = kNone, positions_ = kNone, query_start_ = kNone, context_len_ = kNone, logit_rows_ = kNone,
          target_ = kNone, num_logprobs_ = kNone;
  std::vector<ValueId> sampling_;  // what `sample` reads beside logits and state, in its order
  ValueId last_token_ = kNone;
};

// A layer's KV ask with the policy's dtype. `window` 0: all tokens.
KvSpec self_attention_kv(const BuildContext& context, int64_t heads, int64_t head_dim, int64_t window = 0);
// Elements of the distinct checkpoint tensors that the program reads.
double count_parameters(const Graph& graph, const TensorLookup& lookup);
// "eos_token_id": an id or a list of ids. Errors: malformed, also for an id outside the vocabulary.
Result<std::vector<int32_t>> read_eos_token_ids(const io::ConfigMap& config, int64_t vocab_size);

}  // namespace headrace::models
