// Llama and what shares its shape (SmolLM2, Mistral without a window, ...): pre-norm decoder, grouped-query attention with
// rotary positions, gated MLP, tied or separate head. Config and weight names as in Hugging Face's LlamaForCausalLM.
#include "models/blocks.h"
#include "models/rope_config.h"

namespace headrace::models {
namespace {

struct LlamaConfig {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0;
  ops::RopeTable rope;
  bool rope_interleaved = false;  // GGUF files store q and k in pairs (2i, 2i+1)
  ops::ActivationKind hidden_act = ops::ActivationKind::silu;
  bool attention_bias = false, mlp_bias = false, tie_word_embeddings = false;
};

Result<LlamaConfig> read_config(const BuildContext& context) {
  const io::ConfigMap& config = context.config;
  LlamaConfig c;
  HR_ASSIGN_OR_RETURN(c.vocab_size, config.get_int("vocab_size", 1, 1 << 22));
  HR_ASSIGN_OR_RETURN(c.hidden_size, config.get_int("hidden_size", 1, 1 << 17));
  HR_ASSIGN_OR_RETURN(c.intermediate_size, config.get_int("intermediate_size", 1, 1 << 20));
  HR_ASSIGN_OR_RETURN(c.num_hidden_layers, config.get_int("num_hidden_layers", 1, 1024));
  HR_ASSIGN_OR_RETURN(c.num_attention_heads, config.get_int("num_attention_heads", 1, 1024));
  HR_ASSIGN_OR_RETURN(c.num_key_value_heads, config.get_int_or("num_key_value_heads", c.num_attention_heads, 1, 1024));
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    return error(Code::malformed, "config num_attention_heads: want a multiple of num_key_value_heads {}, got {}",
                 c.num_key_value_heads, c.num_attention_heads);
  }
  if (!config.has("head_dim") && c.hidden_size % c.num_attention_heads != 0) {
    return error(Code::malformed, "config hidden_size: want a multiple of num_attention_heads {} (no head_dim), got {}",
                 c.num_attention_heads, c.hidden_size);
  }
  HR_ASSIGN_OR_RETURN(c.head_dim, config.get_int_or("head_dim", c.hidden_size / c.num_attention_heads, 1, 1024));
  HR_ASSIGN_OR_RETURN(c.max_position_embeddings, config.get_int_or("max_position_embeddings", 2048, 1, 1 << 30));
  HR_ASSIGN_OR_RETURN(c.rms_norm_eps, config.get_number_or("rms_norm_eps", 1e-6, 0.0, 1.0));
  HR_ASSIGN_OR_RETURN(c.rope, read_rope_table(config, c.head_dim, c.max_position_embeddings));
  HR_ASSIGN_OR_RETURN(c.rope_interleaved, config.get_bool_or("rope_interleaved", false));
  HR_ASSIGN_OR_RETURN(const std::string act, config.get_string_or("hidden_act", "silu"));
  HR_ASSIGN_OR_RETURN(c.hidden_act, ops::parse_activation(act));
  HR_ASSIGN_OR_RETURN(c.attention_bias, config.get_bool_or("attention_bias", false));
  HR_ASSIGN_OR_RETURN(c.mlp_bias, config.get_bool_or("mlp_bias", false));
  const bool no_head = context.lookup("lm_head.weight") == nullptr;
  HR_ASSIGN_OR_RETURN(c.tie_word_embeddings, config.get_bool_or("tie_word_embeddings", no_head));
  return c;
}

std::vector<KvSpec> layer_kv(const BuildContext& context, const LlamaConfig& c) {
  return std::vector<KvSpec>(c.num_hidden_layers, self_attention_kv(context, c.num_key_value_heads, c.head_dim));
}

ValueId self_attention(StepProgram& step, const LlamaConfig& c, const Rope& rope, ValueId x, int32_t layer,
                       const std::string& module) {
  const int64_t q_size = c.num_attention_heads * c.head_dim, kv_size = c.num_key_value_heads * c.head_dim;
  const ValueId q = step.linear(x, module + ".q_proj", q_size, c.attention_bias);
  const ValueId k = step.linear(x, module + ".k_proj", kv_size, c.attention_bias);
  const ValueId v = step.linear(x, module + ".v_proj", kv_size, c.attention_bias);
  const ValueId mixed = step.attention(q, k, v, rope, static_cast<int32_t>(c.num_attention_heads), layer, module);
  return step.linear(mixed, module + ".o_proj", c.hidden_size, c.attention_bias);
}

Result<Graph> build_step(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const LlamaConfig c, read_config(context));
  StepProgram step(context, layer_kv(context, c));
  const Rope rope = step.rope(c.rope, c.head_dim, c.rope_interleaved);

  ValueId h = step.embed("model.embed_tokens", c.vocab_size, c.hidden_size);
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}", layer);
    step.hidden(layer, h);
    ValueId x = step.rms_norm(h, at + ".input_layernorm", c.rms_norm_eps);
    h = step.add(h, self_attention(step, c, rope, x, layer, at + ".self_attn"), at + ".attention_residual");
    x = step.rms_norm(h, at + ".post_attention_layernorm", c.rms_norm_eps);
    h = step.add(h, step.gated_mlp(x, at + ".mlp", c.intermediate_size, c.hidden_act, c.mlp_bias), at + ".mlp_residual");
  }
  step.hidden(static_cast<int32_t>(c.num_hidden_layers), h);

  h = step.rms_norm(step.logit_rows(h), "model.norm", c.rms_norm_eps);
  step.logits_and_tokens(h, c.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight", c.vocab_size);
  return step.finish();
}

Result<ModelInfo> info(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const LlamaConfig c, read_config(context));
  HR_ASSIGN_OR_RETURN(const Graph step, build_step(context));
  HR_ASSIGN_OR_RETURN(std::vector<int32_t> eos_token_ids, read_eos_token_ids(context.config, c.vocab_size));
  ModelInfo info;
  info.model_type = "llama";
  info.vocab_size = c.vocab_size;
  info.hidden_size = c.hidden_size;
  info.num_layers = c.num_hidden_layers;
  info.max_position_embeddings = c.max_position_embeddings;
  info.layer_kv = layer_kv(context, c);
  info.eos_token_ids = std::move(eos_token_ids);
  info.num_parameters = count_parameters(step, context.lookup);
  return info;
}

}  // namespace

extern const ModelFamily llama_family;
const ModelFamily llama_family = {.model_type = "llama", .info = info, .build_step = build_step};

}  // namespace headrace::models
