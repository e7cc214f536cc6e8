#pragma once
// The compiled normalization table of a SentencePiece model: a double array (darts) from strings to their
// replacements. The blob is hostile: every index is checked, and a look-up takes at most kMaxSource steps.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace headrace::text {

class Charsmap {
 public:
  static constexpr size_t kMaxSource = 256;        // bytes; published tables stay below 32
  static constexpr size_t kMaxReplacement = 1024;  // bytes; the longest published is 33

  // `blob`: the array's size in bytes (32 bits, little endian), the array, the replacements, each ended by
  // NUL. Error: malformed.
  static Result<Charsmap> parse(std::string_view blob);

  struct Match {
    size_t length;                 // bytes of the text
    std::string_view replacement;  // valid UTF-8
  };
  // The longest, or the shortest, string of the table that begins `text`.
  std::optional<Match> longest(std::string_view text) const { return find(text, true); }
  std::optional<Match> shortest(std::string_view text) const { return find(text, false); }

 private:
  std::optional<Match> find(std::string_view text, bool longest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace headrace::text
