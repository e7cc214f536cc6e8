#include "engine/beam_search.h"

#include <algorithm>
#include <cmath>

namespace headrace::engine {

BeamSearch::BeamSearch(const BeamParams& params, std::vector<int32_t> stop_ids, int32_t min_tokens, int32_t max_tokens,
                       int32_t num_listed)
    : params_(params), stop_ids_(std::move(stop_ids)), min_tokens_(min_tokens), max_tokens_(max_tokens), num_listed_(num_listed),
      live_(1) {}

std::vector<BeamSearch::Move> BeamSearch::advance(std::span<const TokenLogprob> candidates) {
  std::vector<Option> options;
  for (int32_t beam = 0; beam < num_live(); ++beam) {
    for (const auto& [token, logprob] : candidates[beam].top) {
      const bool stops = std::ranges::binary_search(stop_ids_, token);
      if (stops && length_ < min_tokens_) continue;
      options.push_back({beam, token, live_[beam].sum + logprob, stops || length_ + 1 == max_tokens_});
    }
  }
  std::ranges::stable_sort(options, std::greater<>(), &Option::sum);
  std::vector<Move> moves;
  std::vector<Hypothesis> next;
  const auto width = static_cast<size_t>(params_.width);
  for (size_t i = 0; i < options.size() && moves.size() < width; ++i) {
    const Option& option = options[i];
    const TokenLogprob& listed = candidates[option.parent];
    if (!option.ends) {
      moves.push_back({option.parent, option.token});
      next.push_back(extend(option, listed));
    } else if (i < width) {  // an end counts only among the best
      end(option, listed);
    }
  }
  ++length_;
  live_ = std::move(next);
  if (live_.empty() || is_over()) return {};
  return moves;
}

BeamSearch::Hypothesis BeamSearch::extend(const Option& option, const TokenLogprob& candidates) const {
  Hypothesis next = live_[option.parent];
  TokenLogprob token{.id = option.token, .logprob = option.sum - next.sum};
  const auto listed = std::min(candidates.top.size(), static_cast<size_t>(std::max(num_listed_, 0)));
  token.top.assign(candidates.top.begin(), candidates.top.begin() + static_cast<ptrdiff_t>(listed));
  if (std::ranges::find(token.top, option.token, &std::pair<int32_t, double>::first) == token.top.end()) {
    token.top.emplace_back(token.id, token.logprob);
  }
  next.tokens.push_back(std::move(token));
  next.sum = option.sum;
  return next;
}

void BeamSearch::end(const Option& option, const TokenLogprob& candidates) {
  Hypothesis ended = extend(option, candidates);
  ended.score = ended.sum / std::pow(length_ + 1, static_cast<double>(params_.length_penalty));
  if (std::ranges::binary_search(stop_ids_, option.token)) {
    ended.end_token = option.token;
    ended.tokens.pop_back();
  }
  const auto worse = std::ranges::find_if(ended_, [&](const Hypothesis& other) { return other.score < ended.score; });
  ended_.insert(worse, std::move(ended));
  if (ended_.size() > static_cast<size_t>(params_.width)) ended_.pop_back();
}

// `width` hypotheses have ended, and the best live beam, were it to end now, would not be among them.
bool BeamSearch::is_over() const {
  if (ended_.size() < static_cast<size_t>(params_.width)) return false;
  if (params_.early_stopping) return true;
  return live_.front().sum / std::pow(length_, static_cast<double>(params_.length_penalty)) <= ended_.back().score;
}

}  // namespace headrace::engine
