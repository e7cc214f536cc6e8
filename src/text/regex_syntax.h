#pragma once
// From the syntax and the character classes of the library's regular expressions (Oniguruma, in its Unicode version) to a
// pattern that PCRE2 reads alike, whatever PCRE2's own Unicode version is: classes, properties and letters whose case is
// ignored are spelled out as sets of code points, options are resolved where they stand.

#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace::text {

inline constexpr size_t kMaxRegex = size_t{1} << 16;           // bytes of a pattern
inline constexpr size_t kMaxTranslatedRegex = size_t{1} << 20;  // and of what it becomes

// Errors: malformed (a class or group without an end, nothing to repeat), unsupported (a construct, named, or a property
// that is not known). What it does not look into (references, names of groups) is left for PCRE2 to judge.
Result<std::string> translate_regex(std::string_view pattern);

}  // namespace headrace::text
