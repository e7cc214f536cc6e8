#include "engine/request.h"

#include <limits>

#include "runtime/step_plan.h"

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

Status check_sampling(const SamplingParams& sampling, int32_t vocab_size) {
  constexpr double kNoLimit = std::numeric_limits<int32_t>::max();
  HR_RETURN_IF_ERROR(check_range("temperature", sampling.temperature, 0, 100));
  HR_RETURN_IF_ERROR(check_range("top_p", sampling.top_p, 0, 1));
  if (sampling.top_p == 0.0f) return make_status(Code::invalid_argument, "top_p: want more than 0, got 0");
  HR_RETURN_IF_ERROR(check_range("min_p", sampling.min_p, 0, 1));
  HR_RETURN_IF_ERROR(check_range("top_k", sampling.top_k, 0, kNoLimit));
  HR_RETURN_IF_ERROR(check_range("typical_p", sampling.typical_p, 0, 1));
  if (sampling.typical_p == 0.0f) return make_status(Code::invalid_argument, "typical_p: want more than 0, got 0");
  HR_RETURN_IF_ERROR(check_range("repetition_penalty", sampling.repetition_penalty, static_cast<double>(0.01f), 100));
  HR_RETURN_IF_ERROR(check_range("frequency_penalty", sampling.frequency_penalty, -2, 2));
  HR_RETURN_IF_ERROR(check_range("presence_penalty", sampling.presence_penalty, -2, 2));
  HR_RETURN_IF_ERROR(check_range("logit_bias", static_cast<double>(sampling.logit_bias.size()), 0, kMaxBiases));
  for (const auto& [id, bias] : sampling.logit_bias) {
    HR_RETURN_IF_ERROR(check_ids("logit_bias", std::span(&id, 1), vocab_size));
    HR_RETURN_IF_ERROR(check_range("logit_bias", bias, -1e6, 1e6));
  }
  HR_RETURN_IF_ERROR(check_range("bad_words", static_cast<double>(sampling.bad_words.size()), 0, kMaxBadWords));
  size_t bad_ids = 0;
  for (const std::vector<int32_t>& word : sampling.bad_words) bad_ids += word.size();
  HR_RETURN_IF_ERROR(check_range("ids of bad_words", static_cast<double>(bad_ids), 0, kMaxBadWordIds));
  for (const std::vector<int32_t>& word : sampling.bad_words) {
    if (word.empty()) return make_status(Code::invalid_argument, "bad_words: want at least one token in each, got none");
    HR_RETURN_IF_ERROR(check_ids("bad_words", word, vocab_size));
  }
  return {};
}

// What a beam search cannot be asked for: it draws nothing, and ranks by the model's own probabilities.
Status check_beams(const Request& request) {
  const int32_t width = request.beam.width;
  if (width == 0) return {};
  HR_RETURN_IF_ERROR(check_range("beam width", width, 1, kMaxBeams));
  HR_RETURN_IF_ERROR(check_range("length_penalty", request.beam.length_penalty, -10, 10));
  if (request.n > width) {
    return make_status(Code::invalid_argument, "n: want at most as many hypotheses as beams, which are {}, got {}", width, request.n);
  }
  const SamplingParams& sampling = request.sampling;
  const std::pair<const char*, bool> meaningless[] = {
      {"temperature", sampling.temperature != 0.0f && sampling.temperature != 1.0f},
      {"top_p", sampling.top_p != 1.0f},
      {"top_k", sampling.top_k != 0},
      {"min_p", sampling.min_p != 0.0f},
      {"typical_p", sampling.typical_p != 1.0f},
      {"repetition_penalty", sampling.repetition_penalty != 1.0f},
      {"frequency_penalty", sampling.frequency_penalty != 0.0f},
      {"presence_penalty", sampling.presence_penalty != 0.0f},
      {"logit_bias", !sampling.logit_bias.empty()},
      {"bad_words", !sampling.bad_words.empty()},
  };
  for (const auto& [name, is_set] : meaningless) {
    if (is_set) {
      return make_status(Code::invalid_argument,
                         "{} and beam search: have no meaning together, for beams are ranked by the model's own probabilities", name);
    }
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

bool has_penalties(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1.0f || sampling.frequency_penalty != 0.0f || sampling.presence_penalty != 0.0f;
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
  HR_RETURN_IF_ERROR(check_range("min_tokens", request.min_tokens, 0, kNoLimit));
  if (request.min_tokens > request.max_tokens) {
    return make_status(Code::invalid_argument, "min_tokens: want at most max_tokens, which is {}, got {}", request.max_tokens,
                       request.min_tokens);
  }
  HR_RETURN_IF_ERROR(check_range("logprobs", request.logprobs, -1, runtime::kMaxLogprobs));
  HR_RETURN_IF_ERROR(check_range("prompt_logprobs", request.prompt_logprobs, -1, runtime::kMaxLogprobs));
  HR_RETURN_IF_ERROR(check_sampling(request.sampling, vocab_size));
  return check_beams(request);
}

}  // namespace headrace::engine
