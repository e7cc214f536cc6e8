#include "engine/perplexity.h"

#include <cmath>

namespace headrace::engine {

Result<Perplexity> perplexity(std::span<const int32_t> ids, const PerplexityOptions& options, const ScoreText& score) {
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens < 2 * options.context) {
    return error(Code::invalid_argument, "the text has {} tokens; want at least {}, two chunks of the context {}", tokens,
                 2 * options.context, options.context);
  }
  const int64_t num_chunks = tokens / options.context;
  Perplexity result;
  double sum = 0, sum_of_squares = 0;
  for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const auto begin = ids.begin() + chunk * options.context;
    std::vector<int32_t> text(begin, begin + options.context);
    if (options.bos_id >= 0) text.front() = options.bos_id;
    HR_ASSIGN_OR_RETURN(const std::vector<float> logprobs, score(text, options.context / 2));
    for (const float logprob : logprobs) {
      sum -= double{logprob};
      sum_of_squares += double{logprob} * double{logprob};
    }
    result.chunks = chunk + 1;
    result.scored_tokens += static_cast<int64_t>(logprobs.size());
    const auto count = static_cast<double>(result.scored_tokens);
    result.mean_nll = sum / count;
    result.value = std::exp(result.mean_nll);
    const double variance = std::max(sum_of_squares / count - result.mean_nll * result.mean_nll, 0.0);
    result.standard_error = result.value * std::sqrt(variance / (count - 1));
    if (options.progress && !options.progress(result, num_chunks)) {
      return error(Code::cancelled, "stopped after {} of {} chunks", result.chunks, num_chunks);
    }
  }
  return result;
}

}  // namespace headrace::engine
