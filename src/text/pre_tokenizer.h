#pragma once
// The steps that cut normalized text into the words a model sees.

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/piece.h"
#include "text/split_pattern.h"

namespace headrace::text {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Appends the words of `piece` (not empty) in order, none of them empty. What is rewritten lives in `arena`.
  // Error: resource_exhausted, for a regular expression that back-tracks too long.
  virtual Status split(const Piece& piece, PieceArena& arena, std::vector<Piece>& out) const = 0;
};

using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;
using PreTokenizers = std::vector<PreTokenizerPtr>;

// What becomes of the matches of a splitting rule.
enum class SplitBehavior : unsigned char { removed, isolated, merged_with_previous, merged_with_next, contiguous };

PreTokenizerPtr split_by_pattern(SplitPattern pattern);
// Any regular expression, through PCRE2. Error: malformed, when it does not compile.
Result<PreTokenizerPtr> split_by_regex(std::string_view regex, SplitBehavior behavior, bool invert);
PreTokenizerPtr split_by_string(std::string text, SplitBehavior behavior, bool invert);
// Numbers apart from the rest: each character for itself, or (not `individual`) each run.
PreTokenizerPtr split_digits(bool individual);
PreTokenizerPtr split_punctuation(SplitBehavior behavior);
PreTokenizerPtr split_white_space();
// Words of \w, words of other characters that are no white space.
PreTokenizerPtr split_words();
PreTokenizerPtr split_as_bert();
PreTokenizerPtr split_scripts();
PreTokenizerPtr split_fixed_length(size_t num_chars);  // more than 0
// Each byte as a character of byte_alphabet.h.
PreTokenizerPtr spell_bytes_of_words();
// Puts a space before a piece that does not begin with one.
PreTokenizerPtr add_prefix_space();
// Puts `prefix` before every piece.
PreTokenizerPtr add_prefix(std::string prefix);
enum class PrependScheme : unsigned char { always, first, never };
PreTokenizerPtr metaspace(std::string replacement, PrependScheme scheme, bool split);

}  // namespace headrace::text
