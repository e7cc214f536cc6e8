#include "onnx/ops/utf8.h"

#include <clocale>
#include <cwctype>
#include <locale.h>

#include "base/check.h"

namespace headrace::onnx {
namespace {

locale_t utf8_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  CHECK(locale != nullptr);  // part of glibc
  return locale;
}

}  // namespace

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const size_t length = first < 0x80                    ? 1
                          : first >= 0xC2 && first < 0xE0 ? 2
                          : first >= 0xE0 && first < 0xF0 ? 3
                          : first >= 0xF0 && first < 0xF5 ? 4
                                                          : 0;
    char32_t point = length == 1 ? first : length == 2 ? first & 0x1F : length == 3 ? first & 0x0F : first & 0x07;
    bool valid = length > 0 && i + length <= text.size();
    for (size_t k = 1; valid && k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      valid = (next & 0xC0) == 0x80;
      point = point << 6 | (next & 0x3F);
    }
    valid = valid && !(length == 3 && (point < 0x800 || (point >= 0xD800 && point < 0xE000))) &&
            !(length == 4 && (point < 0x10000 || point > 0x10FFFF));
    points.push_back(valid ? point : kByte + first);
    i += valid ? length : 1;
  }
  return points;
}

void append_utf8(std::string& text, char32_t point) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (point >= kByte) return add(point - kByte);
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xC0 | point >> 6);
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add(0x80 | (point >> 6 & 0x3F));
  } else {
    add(0xF0 | point >> 18);
    add(0x80 | (point >> 12 & 0x3F));
    add(0x80 | (point >> 6 & 0x3F));
  }
  add(0x80 | (point & 0x3F));
}

char32_t to_lower(char32_t point) {
  return point >= kByte ? point : static_cast<char32_t>(towlower_l(static_cast<wint_t>(point), utf8_locale()));
}
char32_t to_upper(char32_t point) {
  return point >= kByte ? point : static_cast<char32_t>(towupper_l(static_cast<wint_t>(point), utf8_locale()));
}

}  // namespace headrace::onnx
