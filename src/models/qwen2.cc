// Qwen2 and Qwen2.5: Llama's shape with biases on q, k and v alone, and a window in the upper layers when the configuration
// asks for one. Names as in Hugging Face's Qwen2ForCausalLM.
#include "models/decoder.h"
#include "models/qwen_windows.h"

namespace headrace::models {
namespace {

constexpr PrenormTraits kTraits{.qkv_bias = true};

Result<DecoderConfig> read_qwen2(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(DecoderConfig config, read_decoder_config(context));
  HR_RETURN_IF_ERROR(read_qwen_windows(context.config, config));
  return config;
}

Result<Graph> build_step(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const DecoderConfig config, read_qwen2(context));
  return build_prenorm_decoder(context, config, kTraits);
}

Result<ModelInfo> info(const BuildContext& context) {
  HR_ASSIGN_OR_RETURN(const DecoderConfig config, read_qwen2(context));
  HR_ASSIGN_OR_RETURN(const Graph step, build_step(context));
  return decoder_info("qwen2", context, config, step);
}

}  // namespace

extern const ModelFamily qwen2_family;
const ModelFamily qwen2_family = {.model_type = "qwen2", .info = info, .build_step = build_step};

}  // namespace headrace::models
