#pragma once
// Random requests of every kind: ragged, with common beginnings, choices, beams, penalties, biases, stops and log-probabilities.

#include <cstdint>
#include <random>

#include "engine/request.h"

namespace headrace::testing {

class RandomRequests {
 public:
  RandomRequests(uint64_t seed, int32_t vocab_size) : random_(seed), vocab_size_(vocab_size) {}

  engine::Request next() {
    engine::Request request;
    request.prompt.resize(static_cast<size_t>(uniform(1, 90)));
    const int32_t family = uniform(0, 2), common = uniform(0, 90);
    for (int32_t i = 0; i < static_cast<int32_t>(request.prompt.size()); ++i) {
      request.prompt[i] = i < common ? (i * 7 + family) % vocab_size_ : id();
    }
    request.max_tokens = uniform(1, 40);
    request.priority = uniform(0, 2);
    request.logprobs = uniform(-1, 5);
    request.ignore_eos = chance(0.2);
    if (chance(0.2)) request.prompt_logprobs = uniform(0, 3);
    if (chance(0.3)) request.min_tokens = uniform(0, request.max_tokens);
    if (chance(0.3)) request.stop_token_ids = {id(), id()};
    if (chance(0.1)) request.cache_key = "tenant";
    if (chance(0.15)) {
      request.beam.width = uniform(1, 5);
      request.n = uniform(1, request.beam.width);
      return request;
    }
    request.n = chance(0.3) ? uniform(2, 4) : 1;
    engine::SamplingParams& sampling = request.sampling;
    sampling.temperature = 0.5f * static_cast<float>(uniform(0, 3));
    sampling.seed = random_();
    if (chance(0.3)) sampling.top_p = 0.7f;
    if (chance(0.3)) sampling.top_k = 8;
    if (chance(0.2)) sampling.min_p = 0.05f;
    if (chance(0.2)) sampling.typical_p = 0.8f;
    if (chance(0.3)) sampling.repetition_penalty = 1.3f;
    if (chance(0.3)) sampling.frequency_penalty = 0.4f;
    if (chance(0.3)) sampling.presence_penalty = -0.3f;
    if (chance(0.3)) sampling.logit_bias = {{id(), 3.0f}, {id(), -5.0f}};
    if (chance(0.3)) sampling.bad_words = {{id()}, {id(), id()}};
    return request;
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  int32_t uniform(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }

 private:
  int32_t id() { return uniform(0, vocab_size_ - 1); }
  std::mt19937_64 random_;
  const int32_t vocab_size_;
};

}  // namespace headrace::testing
