#pragma once
// The steps that rewrite text before it is cut into words. Each keeps, for every byte, the source it came
// from.

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/charsmap.h"
#include "text/piece.h"
#include "text/regex.h"

namespace headrace::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Error: resource_exhausted, for a regular expression that back-tracks too long.
  virtual Status apply(AlignedText& text) const = 0;
  // True when apply() would change nothing: the caller then keeps the text as it is.
  virtual bool leaves(std::string_view) const { return false; }
};

using NormalizerPtr = std::unique_ptr<const Normalizer>;

enum class UnicodeForm : unsigned char { nfc, nfd, nfkc, nfkd };
NormalizerPtr to_form(UnicodeForm form);
NormalizerPtr lowercase_all();
NormalizerPtr strip_ends(bool left, bool right);
NormalizerPtr strip_accents();
NormalizerPtr replace_text(std::string from, std::string to);
NormalizerPtr replace_regex(Regex from, std::string to);
NormalizerPtr prepend_text(std::string text);
// The library's Nmt.
NormalizerPtr clean_for_translation();
// Each byte as a character of byte_alphabet.h.
NormalizerPtr spell_in_byte_alphabet();
struct BertOptions {
  bool clean_text = true;
  bool chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};
NormalizerPtr bert_normalizer(BertOptions options);
// White space (U+0020) goes at the ends, and a run of it becomes one.
NormalizerPtr collapse_spaces();
enum class CharsmapRule : unsigned char {
  longest,    // SentencePiece: at each place the longest string of the table
  graphemes,  // `tokenizers`: clusters of up to 5 bytes by the first string that begins them, else each character
};
NormalizerPtr apply_charsmap(Charsmap map, CharsmapRule rule);
NormalizerPtr normalize_in_sequence(std::vector<NormalizerPtr> steps);

}  // namespace headrace::text
