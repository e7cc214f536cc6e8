#include "text/jinja/case_mapping.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace headrace::text::jinja {
namespace {

std::u32string_view mapped(char32_t c, Case to) {
  switch (to) {
    case Case::upper:
      return python_upper(c);
    case Case::lower:
      return python_lower(c);
    case Case::title:
      return python_title(c);
  }
  return {};
}

}  // namespace

Text convert_case(const Text& text, Case first, Case rest) {
  TextBuilder out;
  std::string changed;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    const std::u32string_view to = mapped(c.code, at == 0 ? first : rest);
    if (to.empty()) {
      out.append(text, at, at + c.length);
    } else {
      changed.clear();
      for (const char32_t part : to) append_utf8(changed, part);
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
