#pragma once
// A regular expression in the library's syntax (regex_syntax.h), over UTF-8, run by PCRE2 with a limit on back-tracking.
// Thread-safe after compiling.

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace headrace::text {

class Regex {
 public:
  static Result<Regex> compile(std::string_view pattern);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  struct Match {
    size_t begin;
    size_t end;
  };
  // All successive leftmost matches; an empty one does not follow another match. None in an empty text. `text` is valid UTF-8. Error: resource_exhausted,
  // when one match takes more steps than the limit.
  Status find_all(std::string_view text, std::vector<Match>& out) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace headrace::text
