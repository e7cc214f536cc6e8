#include "ops/sampling_distribution.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace headrace::ops {
namespace {

// Sums of probabilities carry rounding of about 1e-16 a term; a set that reaches top_p but for that has
// reached it.
constexpr double kSumSlack = 1e-12;

Status check_range(std::string_view name, double value, double low, double high) {
  if (value >= low && value <= high && std::isfinite(value)) return {};
  return make_status(Code::invalid_argument, "{}: want a number in {}..{}, got {}", name, low, high, value);
}

void apply_penalties(std::vector<double>& logits, const SamplingParameters& p,
                     std::span<const int32_t> prompt, std::span<const int32_t> output) {
  const auto in_vocabulary = [&](int64_t token) {
    return token >= 0 && token < static_cast<int64_t>(logits.size());
  };
  for (const auto& [token, bias] : p.logit_bias) logits[token] += bias;
  std::set<int32_t> seen(prompt.begin(), prompt.end());
  seen.insert(output.begin(), output.end());
  for (const int32_t token : seen) {
    if (!in_vocabulary(token)) continue;
    double& x = logits[token];
    x = x > 0 ? x / p.repetition_penalty : x * p.repetition_penalty;
  }
  std::map<int32_t, int64_t> counts;
  for (const int32_t token : output) ++counts[token];
  for (const auto& [token, count] : counts) {
    if (in_vocabulary(token))
      logits[token] -= p.frequency_penalty * static_cast<double>(count) + p.presence_penalty;
  }
}

void keep_top_k(std::vector<double>& scaled, int64_t k) {
  if (k < 1 || k >= static_cast<int64_t>(scaled.size())) return;
  std::vector<double> sorted = scaled;
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
  const double kth = sorted[k - 1];
  for (double& x : scaled) {
    if (x < kth) x = -HUGE_VAL;
  }
}

void keep_top_p(std::vector<double>& probabilities, double top_p) {
  if (!(top_p < 1)) return;
  std::vector<int64_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return probabilities[a] > probabilities[b]; });
  double sum = 0;
  bool reached = false;
  for (const int64_t token : order) {
    if (reached) probabilities[token] = 0;
    sum += probabilities[token];
    reached = reached || sum >= top_p - kSumSlack;
  }
}

// Meister et al. 2023, as transformers' TypicalLogitsWarper.
void keep_typical(std::vector<double>& probabilities, double typical_p) {
  if (!(typical_p < 1)) return;
  double entropy = 0;
  for (const double p : probabilities) {
    if (p > 0) entropy -= p * std::log(p);
  }
  std::vector<std::pair<double, int64_t>> order;  // how far a token's information is from what was to be expected
  for (size_t token = 0; token < probabilities.size(); ++token) {
    const double p = probabilities[token];
    if (p > 0) order.emplace_back(std::fabs(-std::log(p) - entropy), static_cast<int64_t>(token));
  }
  std::sort(order.begin(), order.end());
  double sum = 0;
  size_t last = 0;
  for (; last + 1 < order.size(); ++last) {
    sum += probabilities[order[last].second];
    if (sum >= typical_p - kSumSlack) break;
  }
  for (const auto& [distance, token] : order) {
    if (distance > order[last].first) probabilities[token] = 0;
  }
}

void normalize(std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
}

}  // namespace

Status check_sampling_parameters(const SamplingParameters& p, int64_t vocab_size) {
  HR_RETURN_IF_ERROR(check_range("temperature", p.temperature, 0, 1e6));
  HR_RETURN_IF_ERROR(check_range("top_p", p.top_p, 0, 1));
  HR_RETURN_IF_ERROR(check_range("min_p", p.min_p, 0, 1));
  HR_RETURN_IF_ERROR(check_range("typical_p", p.typical_p, 0, 1));
  HR_RETURN_IF_ERROR(check_range("frequency_penalty", p.frequency_penalty, -2, 2));
  HR_RETURN_IF_ERROR(check_range("presence_penalty", p.presence_penalty, -2, 2));
  if (p.top_k < -1)
    return make_status(Code::invalid_argument, "top_k: want -1, 0 (all) or a count, got {}", p.top_k);
  if (!(p.repetition_penalty > 0) || !std::isfinite(p.repetition_penalty)) {
    return make_status(Code::invalid_argument, "repetition_penalty: want a number above 0, got {}",
                       p.repetition_penalty);
  }
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return make_status(Code::invalid_argument, "logit_bias: token {} lies outside the vocabulary of {}",
                         token, vocab_size);
    }
    if (!(bias < HUGE_VAL)) {
      return make_status(Code::invalid_argument, "logit_bias: want a number or -infinity for token {}, got {}", token, bias);
    }
  }
  return {};
}

Result<std::vector<double>> sampling_distribution(std::span<const double> logits,
                                                  const SamplingParameters& parameters,
                                                  std::span<const int32_t> prompt_tokens,
                                                  std::span<const int32_t> output_tokens) {
  HR_RETURN_IF_ERROR(check_sampling_parameters(parameters, static_cast<int64_t>(logits.size())));
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == HUGE_VAL)
      return error(Code::internal, "logit {} is {}", i, logits[i]);
  }
  std::vector<double> x(logits.begin(), logits.end());
  apply_penalties(x, parameters, prompt_tokens, output_tokens);
  if (std::none_of(x.begin(), x.end(), [](double value) { return std::isfinite(value); })) {
    return error(Code::internal, "none of {} logits is finite", logits.size());
  }
  const auto best = std::max_element(x.begin(), x.end());
  if (parameters.temperature == 0) {
    std::vector<double> one_hot(x.size(), 0.0);
    one_hot[best - x.begin()] = 1.0;
    return one_hot;
  }
  const double peak = *best;
  for (double& value : x) value = (value - peak) / parameters.temperature;
  keep_top_k(x, parameters.top_k);
  for (double& value : x) value = std::exp(value);
  normalize(x);
  keep_top_p(x, parameters.top_p);
  const double floor = parameters.min_p * *std::max_element(x.begin(), x.end());
  for (double& value : x) {
    if (value < floor) value = 0;
  }
  normalize(x);
  keep_typical(x, parameters.typical_p);
  normalize(x);
  return x;
}

int64_t draw(std::span<const double> probabilities, double u) {
  double sum = 0;
  int64_t last = -1;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0) continue;
    sum += probabilities[i];
    last = static_cast<int64_t>(i);
    if (sum > u) break;
  }
  return last;
}

}  // namespace headrace::ops
