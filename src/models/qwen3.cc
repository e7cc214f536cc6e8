// Qwen3 (dense): Llama's shape with an RMSNorm of every query and key head before the rotation. Names as in Hugging Face's
// Qwen3ForCausalLM.
#include "models/decoder.h"
#include "models/qwen_windows.h"

namespace headrace::models {
namespace {

struct Qwen3 {
  DecoderConfig decoder;
  PrenormTraits traits;
};

Result<Qwen3> read_qwen3(const BuildContext& context) {
  Qwen3 qwen;
  HR_ASSIGN_OR_RETURN(qwen.decoder, read_decoder_config(context));
  HR_RETURN_IF_ERROR(read_qwen_windows(context.config, qwen.decoder));
  HR_ASSIGN_OR_RETURN(const bool bias, context.config.get_bool_or("attention_bias", false));
  qwen.traits = {.qkv_bias = bias, .output_bias = bias, .query_key_norm = true};
  return qwen;
}

Result<Graph> build_step(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const Qwen3 qwen, read_qwen3(context));
  return build_prenorm_decoder(context, qwen.decoder, qwen.traits);
}

Result<ModelInfo> info(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const Qwen3 qwen, read_qwen3(context));
  HR_ASSIGN_OR_RETURN(const Graph step, build_step(context));
  return decoder_info("qwen3", context, qwen.decoder, step);
}

}  // namespace

extern const ModelFamily qwen3_family;
const ModelFamily qwen3_family = {.model_type = "qwen3", .info = info, .build_step = build_step};

}  // namespace headrace::models
