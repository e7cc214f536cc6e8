#include "text/jinja/case_mapping.h"

#include <algorithm>

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

bool is_cased(char32_t c) {
  return has_case(c, Case::upper) || has_case(c, Case::lower) || has_case(c, Case::title);
}

// What stands inside words without being a letter.
bool is_case_ignorable(char32_t c) {
  constexpr uint32_t ignorable =
      category_set(Category::Mn, Category::Me, Category::Cf, Category::Lm, Category::Sk);
  static constexpr std::u32string_view marks =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  return (category_bit(c) & ignorable) || marks.find(c) != marks.npos;
}

// Whether the sigma at `at` ends a word: a letter with case before it, none after it.
bool is_final_sigma(std::string_view text, size_t at, size_t after) {
  bool before = false;
  while (at > 0) {
    do --at;
    while ((static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
    const char32_t c = decode_utf8(text.substr(at)).code;
    if (is_case_ignorable(c)) continue;
    before = is_cased(c);
    break;
  }
  while (before && after < text.size()) {
    const Utf8Char c = decode_utf8(text.substr(after));
    if (!is_case_ignorable(c.code)) return !is_cased(c.code);
    after += c.length;
  }
  return before;
}

}  // namespace

Text convert_case(Budget& in, const Text& text, Case first, Case rest) {
  in.step(1 + text.bytes.size() / 8);
  const auto is_ascii = [](char c) { return (c & 0x80) == 0; };
  if (std::all_of(text.bytes.begin(), text.bytes.end(), is_ascii)) {
    Text out = text;
    for (size_t i = 0; i < out.bytes.size(); ++i) {
      char& c = out.bytes[i];
      const bool lower = (i == 0 ? first : rest) == Case::lower;
      if (lower ? (c >= 'A' && c <= 'Z') : (c >= 'a' && c <= 'z')) c ^= 0x20;
    }
    return out;
  }
  in.step(text.bytes.size());
  TextBuilder out;
  std::string changed;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    const Case wanted = at == 0 ? first : rest;
    std::u32string_view to = mapped(c.code, wanted);
    if (c.code == U'\u03A3' && wanted == Case::lower && is_final_sigma(text.bytes, at, at + c.length))
      to = U"\u03C2";
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

Text convert_case(Budget& in, const Text& text, Case to) {
  return convert_case(in, text, to, to);
}

Text fold_case(Budget& in, const Text& text) {
  TextBuilder out;
  for (size_t at = 0; at < text.bytes.size();) {
    const Utf8Char c = decode_utf8(std::string_view(text.bytes).substr(at));
    const Text letter = text.sub(at, at + c.length);
    at += c.length;
    const bool cherokee = (c.code >= 0x13A0 && c.code <= 0x13FD) || (c.code >= 0xAB70 && c.code <= 0xABBF);
    if (c.code == 0x131) {
      out.append(letter);  // the dotless i has a fold of its own
    } else if (cherokee) {
      out.append(convert_case(in, letter, Case::upper));
    } else {
      const Text lower = convert_case(in, letter, Case::lower);
      out.append(convert_case(in, convert_case(in, lower, Case::upper), Case::lower));
    }
  }
  return out.take();
}

bool has_case(char32_t c, Case which) {
  const Category category = text::category(c);
  if (which == Case::lower) return category == Category::Ll;
  return category == (which == Case::upper ? Category::Lu : Category::Lt);
}

}  // namespace headrace::text::jinja
