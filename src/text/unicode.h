#pragma once
// Unicode properties as the `tokenizers` library sees them (its Unicode version, its engines' definitions),
// from tables that tools/generate_unicode_tables.py reads off that library.

#include <cstdint>
#include <functional>
#include <string_view>

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

// Every code point once, in order: visit(first, last, category).
void for_each_category_run(const std::function<void(char32_t, char32_t, Category)>& visit);

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

// What components of the library ask of a character, as bits of properties().
enum Property : uint8_t {
  kWordChar = 1,     // \w
  kRustNumeric = 2,  // char::is_numeric
  kBertRemoved = 4,  // control characters that BertNormalizer drops
  kBertSpace = 8,    // white space that it turns into a space
  kBertMark = 16,    // marks that its strip_accents drops
  kBertPunctuation = 32,
  kPunctuationChar = 64,
  kCombiningMark = 128,  // marks that StripAccents drops
};
uint8_t properties(char32_t code);

// Equal for characters that the pre-tokenizer UnicodeScripts keeps together; 0: no script of its own.
uint8_t script_group(char32_t code);
uint8_t combining_class(char32_t code);
// Each gives what `code` becomes, empty when it stays as it is. Decompositions are full; Hangul is not in
// them.
std::u32string_view canonical_decomposition(char32_t code);
std::u32string_view compatible_decomposition(char32_t code);
std::u32string_view lowercase(char32_t code);
// Python's str.upper, str.lower and str.title of one character.
std::u32string_view python_upper(char32_t code);
std::u32string_view python_lower(char32_t code);
std::u32string_view python_title(char32_t code);
// The character that `first` and `second` compose to, or 0.
char32_t compose(char32_t first, char32_t second);
// A text of such characters alone is in NFC.
bool is_stable_under_nfc(char32_t code);

// The property White_Space: \s of the library's regular expressions and Rust's char::is_whitespace.
constexpr bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace headrace::text
