#pragma once
// The distribution that a request's next token is drawn from, in float64, from logits and every sampling
// parameter of the API. The plain statement of what the sampling ops compute: their reference, and what
// logprobs and tests compare with. Pure functions.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"

namespace headrace::ops {

struct SamplingParameters {
  double temperature = 1.0;  // 0: arg-max, the lowest id on a tie
  int64_t top_k = 0;         // keep the k largest and all that tie with the k-th; below 1: all
  double top_p =
      1.0;  // then the smallest set, in falling probability, whose sum reaches p; at least one token
  double min_p = 0.0;               // then drop what is below min_p * the largest probability
  double typical_p = 1.0;           // then keep those of nearest the expected information until their sum reaches p (sample.h)
  double repetition_penalty = 1.0;  // x / r where x > 0, else x * r, once per token of prompt or output
  double frequency_penalty = 0.0;   // times the token's count in the output
  double presence_penalty = 0.0;    // where the output holds the token
  std::vector<std::pair<int64_t, double>> logit_bias;  // -infinity bans the token
};

// Errors: invalid_argument for a value outside its range, naming the field and the range.
Status check_sampling_parameters(const SamplingParameters& parameters, int64_t vocab_size);

// One probability per logit, summing to 1, by the steps of sample.h. Tokens of prompt and output outside the vocabulary are
// ignored. Errors: those above; internal when a logit is NaN or +infinity, or none is finite once biases are added.
Result<std::vector<double>> sampling_distribution(std::span<const double> logits,
                                                  const SamplingParameters& parameters,
                                                  std::span<const int32_t> prompt_tokens = {},
                                                  std::span<const int32_t> output_tokens = {});

// Inverse CDF in rising id order: the first id at which the sum passes u, for u in (0, 1).
int64_t draw(std::span<const double> probabilities, double u);

}  // namespace headrace::ops
