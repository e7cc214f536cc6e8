#pragma once
// Upper, lower and title case of characters, as Python's str methods have them.

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace headrace::text::jinja {

enum class Case : unsigned char { upper, lower, title };

Text convert_case(Budget& in, const Text& text, Case to);
// The first character in one case, the rest in another.
Text convert_case(Budget& in, const Text& text, Case first, Case rest);
bool has_case(char32_t c, Case which);
// str.casefold().
Text fold_case(Budget& in, const Text& text);

}  // namespace headrace::text::jinja
