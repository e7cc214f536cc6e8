#pragma once
// Log-probabilities in the words of the OpenAI API.

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/request.h"

namespace headrace::server {

using engine::TokenLogprob;

// A log-probability fit for JSON, which knows no infinity: at least -9999.
double finite_logprob(double logprob);

// A token's bytes as text: themselves when they are UTF-8, else "bytes:\xf0\x9f", as the completions API
// spells them.
std::string token_label(std::string_view bytes);

// Where each token of a completion starts, in code points from the start of the prompt's text.
class TextOffsets {
 public:
  // The offset of a token with these bytes; a token that continues a code point starts where that one ended.
  int64_t next(std::string_view bytes);

 private:
  int64_t position_ = 0;
};

}  // namespace headrace::server
