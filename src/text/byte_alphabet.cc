#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace headrace::text {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_chars() {
  std::array<char32_t, 256> chars{};
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) chars[byte] = stands_for_itself(byte) ? byte : next++;
  return chars;
}

constexpr std::array<char32_t, 256> kChars = make_chars();

constexpr std::array<int16_t, 512> make_bytes() {
  std::array<int16_t, 512> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[kChars[byte]] = static_cast<int16_t>(byte);
  return bytes;
}

constexpr std::array<int16_t, 512> kBytes = make_bytes();

}  // namespace

char32_t byte_to_char(unsigned char byte) {
  return kChars[byte];
}
int char_to_byte(char32_t code) {
  return code < kBytes.size() ? kBytes[code] : -1;
}

std::optional<std::string> spelled_bytes(std::string_view token) {
  std::string out;
  out.reserve(token.size());
  while (!token.empty()) {
    const Utf8Char c = decode_utf8(token);
    const int byte = c.state == Utf8State::valid ? char_to_byte(c.code) : -1;
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    token.remove_prefix(c.length);
  }
  return out;
}

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(out, byte_to_char(static_cast<unsigned char>(byte)));
  return out;
}

}  // namespace headrace::text
