// Gemma 3, text: norms before and after each block with weights stored less one, norms of every query and key head, embeddings
// scaled by sqrt(hidden_size), and two kinds of layers, each a KV group of its own: most see a window and rotate by a base of
// their own, every sixth sees all tokens. Names as in Hugging Face's Gemma3ForCausalLM (model_type gemma3_text).
#include <cmath>

#include "models/decoder.h"
#include "models/rope_config.h"

namespace headrace::models {
namespace {

// As Hugging Face's Gemma3TextConfig, which published files rely on.
constexpr DecoderDefaults kDefaults{.hidden_act_key = "hidden_activation",
                                    .vocab_size = 262208,
                                    .num_attention_heads = 8,
                                    .num_key_value_heads = 4,
                                    .head_dim = 256,
                                    .context_is_scaled = true};

struct Gemma3 {
  DecoderConfig decoder;
  AttentionTraits attention;
  double norm_offset = 1.0;        // GGUF files store the sum
  double final_logit_softcap = 0;  // 0: none
  bool attention_bias = false;
};

Result<Gemma3> read_gemma3(const BuildContext& context) {
  const io::ConfigMap& config = context.config;
  Gemma3 gemma;
  HR_ASSIGN_OR_RETURN(gemma.decoder, read_decoder_config(context, kDefaults));
  DecoderConfig& c = gemma.decoder;
  if (!config.has("hidden_activation")) c.hidden_act = ops::UnaryKind::gelu_tanh;
  HR_ASSIGN_OR_RETURN(const int64_t window, config.get_int_or("sliding_window", 4096, 1, 1 << 30));
  HR_ASSIGN_OR_RETURN(int64_t pattern, config.get_int_or("sliding_window_pattern", 6, 1, 1024));
  HR_ASSIGN_OR_RETURN(pattern, config.get_int_or("_sliding_window_pattern", pattern, 1, 1024));
  HR_RETURN_IF_ERROR(read_windows(
      config, c, window, [](int64_t layer, int64_t period) { return (layer + 1) % period != 0; }, pattern));

  gemma.attention.heads = c.num_attention_heads;
  HR_ASSIGN_OR_RETURN(const double scalar, config.get_number_or("query_pre_attn_scalar", 256.0, 1e-3, 1e6));
  gemma.attention.scale = 1.0 / std::sqrt(scalar);
  HR_ASSIGN_OR_RETURN(gemma.attention.softcap, config.get_number_or("attn_logit_softcapping", 0.0, 0.0, 1e6));
  HR_ASSIGN_OR_RETURN(gemma.final_logit_softcap, config.get_number_or("final_logit_softcapping", 0.0, 0.0, 1e6));
  HR_ASSIGN_OR_RETURN(gemma.norm_offset, config.get_number_or("rms_norm_offset", 1.0, 0.0, 1.0));
  HR_ASSIGN_OR_RETURN(gemma.attention_bias, config.get_bool_or("attention_bias", false));
  return gemma;
}

ValueId self_attention(StepProgram& step, const Gemma3& gemma, const Rope& rope, ValueId x, int32_t layer,
                       const std::string& module) {
  const DecoderConfig& c = gemma.decoder;
  const int64_t q_size = c.num_attention_heads * c.head_dim, kv_size = c.num_key_value_heads * c.head_dim;
  ValueId q = step.linear(x, module + ".q_proj", q_size, gemma.attention_bias);
  ValueId k = step.linear(x, module + ".k_proj", kv_size, gemma.attention_bias);
  const ValueId v = step.linear(x, module + ".v_proj", kv_size, gemma.attention_bias);
  q = step.head_norm(q, module + ".q_norm", c.num_attention_heads, c.rms_norm_eps, gemma.norm_offset);
  k = step.head_norm(k, module + ".k_norm", c.num_key_value_heads, c.rms_norm_eps, gemma.norm_offset);
  const ValueId mixed = step.attention(q, k, v, rope, gemma.attention, layer, module);
  return step.linear(mixed, module + ".o_proj", c.hidden_size, gemma.attention_bias);
}

Result<Graph> build_step(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const Gemma3 gemma, read_gemma3(context));
  const DecoderConfig& c = gemma.decoder;
  HR_ASSIGN_OR_RETURN(const ops::RopeTable full_table, read_rope_table(context, c.head_dim, RopeUse::full));
  HR_ASSIGN_OR_RETURN(const ops::RopeTable sliding_table, read_rope_table(context, c.head_dim, RopeUse::sliding));
  StepProgram step(context, layer_kv(context, c));
  const Rope full = step.rope(full_table, c.head_dim, c.rope_interleaved, "inv_freq.full");
  const Rope sliding = step.rope(sliding_table, c.head_dim, c.rope_interleaved, "inv_freq.sliding");
  const auto norm = [&](ValueId x, const std::string& module) {
    return step.rms_norm(x, module, c.rms_norm_eps, gemma.norm_offset);
  };

  const float scale = std::sqrt(static_cast<float>(c.hidden_size));
  ValueId h = step.embed("model.embed_tokens", c.vocab_size, c.hidden_size, scale);
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}", layer);
    step.hidden(layer, h);
    const Rope& rope = c.window[layer] > 0 ? sliding : full;
    ValueId x = self_attention(step, gemma, rope, norm(h, at + ".input_layernorm"), layer, at + ".self_attn");
    h = step.add(h, norm(x, at + ".post_attention_layernorm"), at + ".attention_residual");
    x = norm(h, at + ".pre_feedforward_layernorm");
    x = step.gated_mlp(x, at + ".mlp", c.intermediate_size, c.hidden_act, false);
    h = step.add(h, norm(x, at + ".post_feedforward_layernorm"), at + ".mlp_residual");
  }
  step.hidden(static_cast<int32_t>(c.num_hidden_layers), h);

  h = norm(step.logit_rows(h), "model.norm");
  step.logits_and_tokens(h, c.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight", c.vocab_size,
                         gemma.final_logit_softcap);
  return step.finish();
}

Result<ModelInfo> info(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const Gemma3 gemma, read_gemma3(context));
  HR_ASSIGN_OR_RETURN(const Graph step, build_step(context));
  return decoder_info("gemma3_text", context, gemma.decoder, step);
}

}  // namespace

extern const ModelFamily gemma3_text_family;
const ModelFamily gemma3_text_family = {.model_type = "gemma3_text", .info = info, .build_step = build_step};

}  // namespace headrace::models
