#pragma once
// A template's source as tokens, white-space control (`-`, `+`, trim_blocks, lstrip_blocks) already applied.

#include <string>
#include <string_view>
#include <vector>

namespace headrace::text::jinja {

enum class TokenType : unsigned char {
  data,            // text outside of tags
  block_begin,     // {%
  block_end,       // %}
  variable_begin,  // {{
  variable_end,    // }}
  name,
  string,   // `text` is the value
  integer,  // `text` is the source, underscores removed
  real,
  op,
  end,
};

struct Lexeme {
  TokenType type;
  std::string text;
  int line;
};

// Ends with one `end`. Raises TemplateError.
std::vector<Lexeme> lex(std::string_view source);

// White space as Python's str.strip() and \s see it.
bool is_python_space(char32_t c);

}  // namespace headrace::text::jinja
