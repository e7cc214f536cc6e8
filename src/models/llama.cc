// Llama and what shares its shape (SmolLM2, Mistral, ...): pre-norm decoder, grouped-query attention with rotary positions,
// gated MLP, tied or separate head. Config and weight names as in Hugging Face's LlamaForCausalLM and MistralForCausalLM.
#include "models/decoder.h"

namespace headrace::models {
namespace {

struct Llama {
  DecoderConfig decoder;
  PrenormTraits traits;
};

Result<Llama> read_llama(const BuildContext& context) {
  Llama llama;
  HR_ASSIGN_OR_RETURN(llama.decoder, read_decoder_config(context));
  HR_ASSIGN_OR_RETURN(const bool attention_bias, context.config.get_bool_or("attention_bias", false));
  llama.traits.qkv_bias = llama.traits.output_bias = attention_bias;
  HR_ASSIGN_OR_RETURN(llama.traits.mlp_bias, context.config.get_bool_or("mlp_bias", false));
  return llama;
}

// The first Mistral keeps a window in every layer; later ones say null.
Result<Llama> read_mistral(const BuildContext& context) {
  Llama mistral;
  HR_ASSIGN_OR_RETURN(mistral.decoder, read_decoder_config(context));
  HR_ASSIGN_OR_RETURN(const int64_t window, context.config.get_int_or("sliding_window", 0, 0, 1 << 30));
  if (window > 0) mistral.decoder.window.assign(mistral.decoder.num_hidden_layers, window);
  return mistral;
}

template <Result<Llama> (*read)(const BuildContext&)>
Result<Graph> build_step(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const Llama llama, read(context));
  return build_prenorm_decoder(context, llama.decoder, llama.traits);
}

template <Result<Llama> (*read)(const BuildContext&)>
Result<ModelInfo> info(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const Llama llama, read(context));
  HR_ASSIGN_OR_RETURN(const Graph step, build_step<read>(context));
  return decoder_info(read == read_llama ? "llama" : "mistral", context, llama.decoder, step);
}

}  // namespace

extern const ModelFamily llama_family, mistral_family;
const ModelFamily llama_family = {.model_type = "llama", .info = info<read_llama>, .build_step = build_step<read_llama>};
const ModelFamily mistral_family = {.model_type = "mistral", .info = info<read_mistral>, .build_step = build_step<read_mistral>};

}  // namespace headrace::models
