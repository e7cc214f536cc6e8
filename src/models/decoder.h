#pragma once
// What the decoder families share: the configuration keys that mean the same in each of them, and the pre-norm program of
// Llama and its relatives. A family with another shape (Gemma 3) writes its own program from StepProgram's blocks.

#include <optional>
#include <string_view>
#include <vector>

#include "models/blocks.h"

namespace headrace::models {

struct DecoderConfig {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  int64_t max_position_embeddings = 0;  // after rope scaling
  double rms_norm_eps = 0;
  bool rope_interleaved = false;  // GGUF files of `llama` store q and k in pairs (2i, 2i+1)
  ops::UnaryKind hidden_act = ops::UnaryKind::silu;
  bool tie_word_embeddings = false;
  std::vector<int64_t> window;  // of each layer; 0: all tokens
};

// How a family differs from the configuration's defaults.
struct DecoderDefaults {
  std::string_view hidden_act_key = "hidden_act";
  double rms_norm_eps = 1e-6;
  // What files of the family leave out; 0: the key must be there (key-value heads: as many as query heads).
  int64_t vocab_size = 0, num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  bool context_is_scaled = false;  // max_position_embeddings is the context after rope scaling
};

// Errors: malformed, naming the key; unsupported for an activation that is not known.
Result<DecoderConfig> read_decoder_config(const BuildContext& context, const DecoderDefaults& defaults = {});

// Fills `window`. Without `layer_types` in the configuration every layer follows `is_sliding(layer)`.
Status read_windows(const io::ConfigMap& config, DecoderConfig& decoder, std::optional<int64_t> sliding_window,
                    bool (*is_sliding)(int64_t layer, int64_t parameter), int64_t parameter);

std::vector<KvSpec> layer_kv(const BuildContext& context, const DecoderConfig& config);

// `step` is the family's program: its weights are counted.
Result<ModelInfo> decoder_info(std::string_view model_type, const BuildContext& context, const DecoderConfig& config,
                               const Graph& step);

// h += attention(norm(h)); h += mlp(norm(h)), with grouped queries, rotary positions and a gated MLP.
struct PrenormTraits {
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool query_key_norm = false;  // RMSNorm of each head before the rotation
};
Result<Graph> build_prenorm_decoder(const BuildContext& context, const DecoderConfig& config, const PrenormTraits& traits);

}  // namespace headrace::models
