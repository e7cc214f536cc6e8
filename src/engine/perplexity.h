#pragma once
// The perplexity of a text, cut and counted as llama.cpp's llama-perplexity does by default, so that the two can be compared: chunks
// of `context` consecutive tokens, what is left over dropped; where the vocabulary begins texts with BOS, BOS in place of each
// chunk's first token; each chunk for itself, and of it the tokens from context / 2 + 1 on scored.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"

namespace headrace::engine {

struct Perplexity {
  int64_t chunks = 0;
  int64_t scored_tokens = 0;
  double mean_nll = 0;        // nats a token
  double value = 0;           // exp(mean_nll)
  double standard_error = 0;  // of value, tokens taken as independent
};

struct PerplexityOptions {
  int64_t context = 512;
  int32_t bos_id = -1;  // -1: the vocabulary adds none
  // Hears the estimate after each chunk of so many, and says whether to go on; may be null.
  std::function<bool(const Perplexity& so_far, int64_t num_chunks)> progress = nullptr;
};

// As Scorer::score.
using ScoreText = std::function<Result<std::vector<float>>(std::span<const int32_t> ids, int64_t first)>;

// Errors: invalid_argument for fewer than two chunks of tokens, cancelled by `progress`, those of `score`.
Result<Perplexity> perplexity(std::span<const int32_t> ids, const PerplexityOptions& options, const ScoreText& score);

}  // namespace headrace::engine
