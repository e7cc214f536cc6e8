#include "text/jinja/case_mapping.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text::jinja {
namespace {

char32_t mapped(char32_t c, Case to) {
  if (to == Case::lower) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return c >= 'a' && c <= 'z' ? c - 32 : c;
}

}  // namespace

Text convert_case(const Text& text, Case first, Case rest) {
  TextBuilder out;
  std::string changed;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    const char32_t to = mapped(c.code, at == 0 ? first : rest);
    if (to == c.code) {
      out.append(text, at, at + c.length);
    } else {
      changed.clear();
      append_utf8(changed, to);
      // The case of a character does not change who wrote it.
      if (text.sub(at, at + c.length).trusted.empty()) {
        out.append_data(changed);
      } else {
        out.append_trusted(changed);
      }
    }
    at += c.length;
  }
  return out.take();
}

Text convert_case(const Text& text, Case to) {
  return convert_case(text, to, to);
}

bool has_case(char32_t c, Case which) {
  const Category category = text::category(c);
  if (which == Case::lower) return category == Category::Ll;
  return category == (which == Case::upper ? Category::Lu : Category::Lt);
}

}  // namespace headrace::text::jinja
