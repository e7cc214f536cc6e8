#pragma once
// Texts to vectors as a caller sees it: a text cut to what the model takes, a vector cut to fewer dimensions, and a call
// that waits. The command line and the server use this same code.

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "text/tokenizer.h"

namespace headrace::engine {

// The ids of `text`, what the post-processor adds included. Where they are more than `max_tokens`, the text's last tokens
// are left out and the added ones stay, as in sentence-transformers. Errors: the tokenizer's; invalid_argument when the
// added ones alone are too many.
Result<std::vector<int32_t>> encode_truncated(const text::Tokenizer& tokenizer, std::string_view text, int32_t max_tokens);

// The first `dimensions` numbers, scaled to length 1 (a vector of zeros stays). All of them: the vector as it is.
void shorten(std::vector<float>& embedding, int64_t dimensions);

// One vector for each input, in order. Blocks. Errors: Engine::submit's, or what ended the request.
struct Embeddings {
  std::vector<std::vector<float>> vectors;
  RequestTiming timing;
};
Result<Embeddings> embed(Engine& engine, std::vector<std::vector<int32_t>> inputs);

}  // namespace headrace::engine
