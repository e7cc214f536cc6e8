#pragma once
// Regular expressions in RE2's syntax, matched in time linear in the text (Thompson's simulation of all states at once). Not
// there: Unicode classes (\p{...}, \pN) and single bytes (\C), which compile() calls unsupported. Captures are groups, greed
// does not matter: only whole texts are matched. Thread-safe once compiled.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace headrace::onnx {

// Code points, by ranges.
struct CharSet {
  std::vector<std::pair<char32_t, char32_t>> ranges;  // both ends included
  bool negated = false, any_case = false;
  bool contains(char32_t point) const;
};

class Regex {
 public:
  // Errors: malformed, unsupported, resource_exhausted for more than 32768 states.
  static Result<Regex> compile(std::string_view pattern);
  bool matches_all_of(std::string_view text) const;

  enum class Place : uint8_t { text_begin, text_end, line_begin, line_end, word_edge, no_word_edge };
  struct State {
    enum class Kind : uint8_t { set, split, place, match } kind;
    Place place = Place::text_begin;
    size_t set = 0;           // of sets_
    size_t next = 0, or_next = 0;  // or_next: of split
  };

 private:
  std::vector<State> states_;
  std::vector<CharSet> sets_;
};

}  // namespace headrace::onnx
