#include "models/decoder.h"

#include <algorithm>

#include "models/rope_config.h"

namespace headrace::models {

Result<DecoderConfig> read_decoder_config(const BuildContext& context, const DecoderDefaults& defaults) {
  const io::ConfigMap& config = context.config;
  DecoderConfig c;
  const auto required_unless = [&](const char* key, int64_t fallback, int64_t max) {
    return fallback > 0 ? config.get_int_or(key, fallback, 1, max) : config.get_int(key, 1, max);
  };
  HR_ASSIGN_OR_RETURN(c.vocab_size, required_unless("vocab_size", defaults.vocab_size, 1 << 22));
  HR_ASSIGN_OR_RETURN(c.hidden_size, config.get_int("hidden_size", 1, 1 << 17));
  HR_ASSIGN_OR_RETURN(c.intermediate_size, config.get_int("intermediate_size", 1, 1 << 20));
  HR_ASSIGN_OR_RETURN(c.num_hidden_layers, config.get_int("num_hidden_layers", 1, 1024));
  HR_ASSIGN_OR_RETURN(c.num_attention_heads, required_unless("num_attention_heads", defaults.num_attention_heads, 1024));
  const int64_t kv_heads = defaults.num_key_value_heads > 0 ? defaults.num_key_value_heads : c.num_attention_heads;
  HR_ASSIGN_OR_RETURN(c.num_key_value_heads, config.get_int_or("num_key_value_heads", kv_heads, 1, 1024));
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    return error(Code::malformed, "config num_attention_heads: want a multiple of num_key_value_heads {}, got {}",
                 c.num_key_value_heads, c.num_attention_heads);
  }
  if (!config.has("head_dim") && defaults.head_dim == 0 && c.hidden_size % c.num_attention_heads != 0) {
    return error(Code::malformed, "config hidden_size: want a multiple of num_attention_heads {} (no head_dim), got {}",
                 c.num_attention_heads, c.hidden_size);
  }
  const int64_t head_dim = defaults.head_dim > 0 ? defaults.head_dim : c.hidden_size / c.num_attention_heads;
  HR_ASSIGN_OR_RETURN(c.head_dim, config.get_int_or("head_dim", head_dim, 1, 1024));
  HR_ASSIGN_OR_RETURN(c.max_position_embeddings, config.get_int_or("max_position_embeddings", 2048, 1, 1 << 30));
  if (!defaults.context_is_scaled) {
    HR_ASSIGN_OR_RETURN(c.max_position_embeddings, scaled_context(config, c.max_position_embeddings));
  }
  HR_ASSIGN_OR_RETURN(c.rms_norm_eps, config.get_number_or("rms_norm_eps", defaults.rms_norm_eps, 0.0, 1.0));
  HR_ASSIGN_OR_RETURN(c.rope_interleaved, config.get_bool_or("rope_interleaved", false));
  HR_ASSIGN_OR_RETURN(const std::string act, config.get_string_or(defaults.hidden_act_key, "silu"));
  HR_ASSIGN_OR_RETURN(c.hidden_act, ops::parse_hidden_act(act));
  const bool no_head = context.lookup("lm_head.weight") == nullptr;
  HR_ASSIGN_OR_RETURN(c.tie_word_embeddings, config.get_bool_or("tie_word_embeddings", no_head));
  c.window.assign(c.num_hidden_layers, 0);
  return c;
}

Status read_windows(const io::ConfigMap& config, DecoderConfig& decoder, std::optional<int64_t> sliding_window,
                    bool (*is_sliding)(int64_t layer, int64_t parameter), int64_t parameter) {
  const auto types = config.values().find("layer_types");
  const std::vector<std::string>* names = nullptr;
  if (types != config.values().end()) {
    names = std::get_if<std::vector<std::string>>(&types->second);
    if (names == nullptr || static_cast<int64_t>(names->size()) != decoder.num_hidden_layers) {
      return make_status(Code::malformed, "config layer_types: want {} names, one for each layer", decoder.num_hidden_layers);
    }
  }
  for (int64_t layer = 0; layer < decoder.num_hidden_layers; ++layer) {
    bool sliding = sliding_window.has_value() && is_sliding(layer, parameter);
    if (names != nullptr) {
      const std::string& name = (*names)[layer];
      sliding = name == "sliding_attention";
      if (!sliding && name != "full_attention") {
        return make_status(Code::unsupported, "config layer_types[{}]: want full_attention or sliding_attention, got \"{}\"",
                           layer, name.substr(0, 64));
      }
      if (sliding && !sliding_window) {
        return make_status(Code::malformed, "config layer_types[{}] is sliding_attention; sliding_window is missing", layer);
      }
    }
    decoder.window[layer] = sliding ? *sliding_window : 0;
  }
  return {};
}

std::vector<KvSpec> layer_kv(const BuildContext& context, const DecoderConfig& c) {
  std::vector<KvSpec> specs;
  for (const int64_t window : c.window) {
    specs.push_back(self_attention_kv(context, c.num_key_value_heads, c.head_dim, window));
  }
  return specs;
}

Result<ModelInfo> decoder_info(std::string_view model_type, const BuildContext& context, const DecoderConfig& c,
                               const Graph& step) {
  HR_ASSIGN_OR_RETURN(std::vector<int32_t> eos_token_ids, read_eos_token_ids(context.config, c.vocab_size));
  ModelInfo info;
  info.model_type = model_type;
  info.vocab_size = c.vocab_size;
  info.hidden_size = c.hidden_size;
  info.num_layers = c.num_hidden_layers;
  info.max_position_embeddings = c.max_position_embeddings;
  info.layer_kv = layer_kv(context, c);
  info.eos_token_ids = std::move(eos_token_ids);
  info.num_parameters = count_parameters(step, context.lookup);
  return info;
}

namespace {

ValueId self_attention(StepProgram& step, const DecoderConfig& c, const PrenormTraits& traits, const Rope& rope, ValueId x,
                       int32_t layer, const std::string& module) {
  const int64_t q_size = c.num_attention_heads * c.head_dim, kv_size = c.num_key_value_heads * c.head_dim;
  ValueId q = step.linear(x, module + ".q_proj", q_size, traits.qkv_bias);
  ValueId k = step.linear(x, module + ".k_proj", kv_size, traits.qkv_bias);
  const ValueId v = step.linear(x, module + ".v_proj", kv_size, traits.qkv_bias);
  if (traits.query_key_norm) {
    q = step.head_norm(q, module + ".q_norm", c.num_attention_heads, c.rms_norm_eps);
    k = step.head_norm(k, module + ".k_norm", c.num_key_value_heads, c.rms_norm_eps);
  }
  const ValueId mixed = step.attention(q, k, v, rope, {.heads = c.num_attention_heads}, layer, module);
  return step.linear(mixed, module + ".o_proj", c.hidden_size, traits.output_bias);
}

}  // namespace

Result<Graph> build_prenorm_decoder(const BuildContext& context, const DecoderConfig& c, const PrenormTraits& traits) {
  HR_ASSIGN_OR_RETURN(const ops::RopeTable table, read_rope_table(context, c.head_dim, RopeUse::full));
  StepProgram step(context, layer_kv(context, c));
  const Rope rope = step.rope(table, c.head_dim, c.rope_interleaved);

  ValueId h = step.embed("model.embed_tokens", c.vocab_size, c.hidden_size);
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}", layer);
    step.hidden(layer, h);
    ValueId x = step.rms_norm(h, at + ".input_layernorm", c.rms_norm_eps);
    h = step.add(h, self_attention(step, c, traits, rope, x, layer, at + ".self_attn"), at + ".attention_residual");
    x = step.rms_norm(h, at + ".post_attention_layernorm", c.rms_norm_eps);
    h = step.add(h, step.gated_mlp(x, at + ".mlp", c.intermediate_size, c.hidden_act, traits.mlp_bias), at + ".mlp_residual");
  }
  step.hidden(static_cast<int32_t>(c.num_hidden_layers), h);

  h = step.rms_norm(step.logit_rows(h), "model.norm", c.rms_norm_eps);
  step.logits_and_tokens(h, c.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight", c.vocab_size);
  return step.finish();
}

}  // namespace headrace::models
