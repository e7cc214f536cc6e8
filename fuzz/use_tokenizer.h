#pragma once
// What a tokenizer made of hostile bytes must bear: text of every kind, and ids out of its vocabulary.

#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace headrace::fuzz {

inline void use(const text::Tokenizer& tokenizer, std::string_view own_text) {
  const std::string long_word(300, 'a');
  for (const std::string_view text :
       {std::string_view("ab a  b\n\u00e9\u4e16<s>1 2!\u2581"), std::string_view("\xFF\xE4\xB8 a"),
        std::string_view(long_word), own_text.substr(0, 512)}) {
    const auto encoding = tokenizer.encode(text, {.special = text::SpecialTokens::everywhere});
    if (!encoding) {
      if (encoding.error().message().empty()) std::abort();
      continue;
    }
    if (encoding->ids.size() != encoding->offsets.size()) std::abort();
    for (const text::ByteRange& range : encoding->offsets) {
      if (range.begin > range.end || range.end > text.size()) std::abort();
    }
    (void)tokenizer.decode(encoding->ids, true);
  }
  std::vector<int32_t> ids(64);
  std::iota(ids.begin(), ids.end(), -2);
  (void)tokenizer.decode(ids, false);
  for (const int32_t id : ids) (void)tokenizer.token_bytes(id);
}

}  // namespace headrace::fuzz
