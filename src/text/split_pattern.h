#pragma once
// Hand-written scanners for the split patterns of published byte-level vocabularies. Each pattern matches
// everything: a text is cut into words without gaps, as the regular expression's successive leftmost matches
// would cut it, in one pass (a run of white space is looked at twice at most).

#include <cstddef>
#include <optional>
#include <string_view>

namespace headrace::text {

enum class SplitPattern : unsigned char {
  gpt2,    // contractions, " ?" before letters, numbers, others
  llama3,  // any case of contraction, up to three digits, line breaks apart
  qwen2,   // as llama3, one digit
  qwen35,  // as qwen2, marks count as letters
  o200k,   // words broken where small letters meet capitals, contractions at their end, up to three digits
  tekken,  // as o200k, no contractions, one digit
};

// The pattern whose published spelling is `regex`.
std::optional<SplitPattern> find_split_pattern(std::string_view regex);

// The end of the word that begins at `at` (< text.size()). `text` is valid UTF-8.
size_t next_word(SplitPattern pattern, std::string_view text, size_t at);

}  // namespace headrace::text
