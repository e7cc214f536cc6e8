#include "engine/request.h"

#include <limits>

namespace headrace::engine {
namespace {

// `x` in [low, high]; NaN is in no range.
Status check_range(const char* field, double x, double low, double high) {
  if (x >= low && x <= high) return {};
  return make_status(Code::invalid_argument, "{}: want {} to {}, got {}", field, low, high, x);
}

Status check_ids(const char* field, std::span<const int32_t> ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return make_status(Code::invalid_argument, "{}[{}]: want a token id from 0 to {}, got {}", field, i, vocab_size - 1,
                       ids[i]);
  }
  return {};
}

Status check_inputs(std::span<const std::vector<int32_t>> inputs, int32_t vocab_size) {
  HR_RETURN_IF_ERROR(check_range("inputs", static_cast<double>(inputs.size()), 1, kMaxInputs));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string field = fmt::format("input[{}]", i);
    if (inputs[i].empty()) return make_status(Code::invalid_argument, "{}: want at least one token, got none", field);
    HR_RETURN_IF_ERROR(check_ids(field.c_str(), inputs[i], vocab_size));
  }
  return {};
}

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::none: return "none";
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::abort: return "abort";
    case FinishReason::error: return "error";
  }
  return "unknown";
}

Status check_request(const Request& request, int32_t vocab_size) {
  if (request.kind == RequestKind::embed) return check_inputs(request.inputs, vocab_size);
  if (request.kind != RequestKind::generate) {
    return make_status(Code::unsupported, "requests generate or embed, nothing else yet");
  }
  if (request.prompt.empty()) return make_status(Code::invalid_argument, "prompt: want at least one token, got none");
  HR_RETURN_IF_ERROR(check_ids("prompt", request.prompt, vocab_size));
  HR_RETURN_IF_ERROR(check_ids("stop_token_ids", request.stop_token_ids, vocab_size));
  constexpr double kNoLimit = std::numeric_limits<int32_t>::max();
  HR_RETURN_IF_ERROR(check_range("max_tokens", request.max_tokens, 1, kNoLimit));
  HR_RETURN_IF_ERROR(check_range("n", request.n, 1, kMaxChoices));
  const SamplingParams& sampling = request.sampling;
  HR_RETURN_IF_ERROR(check_range("temperature", sampling.temperature, 0, 100));
  HR_RETURN_IF_ERROR(check_range("top_p", sampling.top_p, 0, 1));
  if (sampling.top_p == 0.0f) return make_status(Code::invalid_argument, "top_p: want more than 0, got 0");
  HR_RETURN_IF_ERROR(check_range("min_p", sampling.min_p, 0, 1));
  return check_range("top_k", sampling.top_k, 0, kNoLimit);
}

}  // namespace headrace::engine
