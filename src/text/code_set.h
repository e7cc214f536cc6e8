#pragma once
// Sets of code points, and those that the library's regular expressions have a name for (in its Unicode version).

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace headrace::text {

// Sorted ranges that neither touch nor overlap. Surrogates may be in it; no text has them.
class CodeSet {
 public:
  static constexpr char32_t kLast = 0x10FFFF;
  using Range = std::pair<char32_t, char32_t>;  // both ends are in it

  CodeSet() = default;
  explicit CodeSet(std::vector<Range> ranges);  // in any order

  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  void add(char32_t first, char32_t last);
  void add(const CodeSet& other);
  CodeSet complement() const;
  CodeSet intersection(const CodeSet& other) const;
  // Less what `other` has.
  CodeSet difference(const CodeSet& other) const { return intersection(other.complement()); }

 private:
  std::vector<Range> ranges_;
};

// The set that \p{name} stands for, or [[:name:]]; spaces, '-', '_' and case do not count. Nothing for an unknown name.
std::optional<CodeSet> named_code_set(std::string_view name);
// The other characters that `code` equals where case is ignored.
std::u32string_view case_variants(char32_t code);
// With the case variants of all its characters.
CodeSet closed_under_case(const CodeSet& set);

}  // namespace headrace::text
