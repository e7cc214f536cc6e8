#pragma once
// A character class as PCRE2 reads it.

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "text/code_set.h"

namespace headrace::text {

// A set under construction, and properties that PCRE2 knows it by, if any: those keep the pattern small (a general category
// is hundreds of ranges), and where PCRE2's Unicode version says something else, the difference is spelled out.
class RegexClass {
 public:
  RegexClass() = default;
  explicit RegexClass(CodeSet set) : set_(std::move(set)) {}

  void add(const CodeSet& set);
  // \p{name}, or its complement. Error: unsupported, for an unknown name.
  Status add_property(std::string_view name, bool negated);
  // Of a nested class.
  void add(const RegexClass& other);
  void intersect(const RegexClass& other);
  void negate() { negated_ = !negated_; }
  // As the library does: of a negated class, what it leaves out grows.
  void ignore_case() { set_ = closed_under_case(set_); }

  // One item of a pattern, that matches one character of the set.
  std::string pattern() const;

 private:
  CodeSet set_;         // before `negated_`
  std::string hints_;   // "\p{L}\p{N}": PCRE2's properties among what was added
  CodeSet hinted_;      // what PCRE2 takes for them
  bool negated_ = false;

  CodeSet value() const { return negated_ ? set_.complement() : set_; }
};

}  // namespace headrace::text
