#pragma once
// UTF-8, one code point at a time, with the ill-formed sequences of the Unicode standard's table 3-7: what
// Rust's and Python's lossy decoders replace with one U+FFFD each. Every function takes any bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::text {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

enum class Utf8State : uint8_t {
  valid,
  ill_formed,  // `length` bytes are a maximal ill-formed subpart
  incomplete,  // the bytes end inside a code point that may still become valid
};

struct Utf8Char {
  char32_t code = kReplacement;
  uint8_t length = 0;  // bytes, at least 1 for a non-empty input
  Utf8State state = Utf8State::valid;
};

// The first code point of `bytes`, which must not be empty.
Utf8Char decode_utf8(std::string_view bytes);

inline void append_utf8(std::string& out, char32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    out.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

bool is_valid_utf8(std::string_view bytes);
// Ill-formed subparts, and an incomplete code point at the end, as U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

}  // namespace headrace::text
