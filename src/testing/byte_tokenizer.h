#pragma once
// The smallest tokenizer: a token is a byte, and id 256 is the special token "<|end|>" that ends an answer. For tests that
// need text and no vocabulary.

#include <memory>

#include "text/tokenizer.h"

namespace headrace::testing {

inline constexpr int32_t kByteEos = 256;
inline constexpr int32_t kByteVocab = 257;
std::unique_ptr<text::Tokenizer> make_byte_tokenizer();
// The ids of `text`, byte by byte.
std::vector<int32_t> byte_ids(std::string_view text);

}  // namespace headrace::testing
