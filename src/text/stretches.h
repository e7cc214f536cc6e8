#pragma once
// Cuts a text where no token can go over: between two characters that stand side by side in no token. What is
// joined on either side of such a place is joined independently, so that a long text becomes short stretches
// (words mostly) with the same tokens.

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/utf8.h"

namespace headrace::text {

class Stretches {
 public:
  // A token that joining may make. All are added before the first end().
  void add(std::string_view token) {
    if (token.empty()) return;
    Utf8Char last = first_of(token);
    for (size_t at = last.length; at < token.size(); at += last.length) {
      const Utf8Char next = first_of(token.substr(at));
      const uint32_t bit = bit_of(last.code, next.code);
      bits_[bit / 64] |= uint64_t{1} << bit % 64;
      last = next;
    }
  }

  // The end of the stretch that begins at `begin`, which is below the text's size.
  size_t end(std::string_view text, size_t begin) const {
    Utf8Char last = first_of(text.substr(begin));
    size_t at = begin + last.length;
    while (at < text.size()) {
      const Utf8Char next = first_of(text.substr(at));
      const uint32_t bit = bit_of(last.code, next.code);
      if (!(bits_[bit / 64] >> bit % 64 & 1)) break;
      at += next.length;
      last = next;
    }
    return at;
  }

 private:
  static Utf8Char first_of(std::string_view text) {
    const auto byte = static_cast<uint8_t>(text[0]);
    return byte < 0x80 ? Utf8Char{byte, 1, Utf8State::valid} : decode_utf8(text);
  }

  // Pairs share bits: then a stretch is longer than it need be.
  static constexpr int kLogBits = 21;  // 256 KiB
  static uint32_t bit_of(char32_t a, char32_t b) {
    const uint64_t mixed = (static_cast<uint64_t>(a) << 21 | b) * 0x9E3779B97F4A7C15;
    return static_cast<uint32_t>(mixed >> (64 - kLogBits));
  }
  std::vector<uint64_t> bits_ = std::vector<uint64_t>((size_t{1} << kLogBits) / 64);
};

}  // namespace headrace::text
