#pragma once
// Unicode properties as the `tokenizers` library sees them (its Unicode version, its engines' definitions),
// from tables that tools/generate_unicode_tables.py reads off that library.

#include <cstdint>

namespace headrace::text {

// General categories. Cn: not assigned.
enum class Category : uint8_t {
  Cn,
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Co,
};

// Any value of char32_t; surrogates and what lies past U+10FFFF are Cn.
Category category(char32_t code);

inline uint32_t category_bit(char32_t code) {
  return 1u << static_cast<unsigned>(category(code));
}

template <class... C>
constexpr uint32_t category_set(C... categories) {
  return ((1u << static_cast<unsigned>(categories)) | ...);
}

inline constexpr uint32_t kLetters =
    category_set(Category::Lu, Category::Ll, Category::Lt, Category::Lm, Category::Lo);
inline constexpr uint32_t kMarks = category_set(Category::Mn, Category::Mc, Category::Me);
inline constexpr uint32_t kNumbers = category_set(Category::Nd, Category::Nl, Category::No);
inline constexpr uint32_t kPunctuation = category_set(Category::Pc, Category::Pd, Category::Ps, Category::Pe,
                                                      Category::Pi, Category::Pf, Category::Po);
inline constexpr uint32_t kSymbols = category_set(Category::Sm, Category::Sc, Category::Sk, Category::So);

// The property White_Space: \s of the library's regular expressions and Rust's char::is_whitespace.
constexpr bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace headrace::text
