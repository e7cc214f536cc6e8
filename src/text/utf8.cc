#include "text/utf8.h"

namespace headrace::text {
namespace {

struct Lead {
  uint8_t length;  // 0: never starts a code point
  uint8_t low;     // range of the second byte
  uint8_t high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Char decode_utf8(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first < 0x80) return {first, 1, Utf8State::valid};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {kReplacement, 1, Utf8State::ill_formed};
  char32_t code = first & (0xFF >> (lead.length + 1));
  for (uint8_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {kReplacement, i, Utf8State::incomplete};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {kReplacement, i, Utf8State::ill_formed};
    code = code << 6 | (byte & 0x3F);
  }
  return {code, lead.length, Utf8State::valid};
}

bool is_valid_utf8(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    if (static_cast<uint8_t>(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Char c = decode_utf8(bytes.substr(at));
    if (c.state != Utf8State::valid) return false;
    at += c.length;
  }
  return true;
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Char c = decode_utf8(bytes.substr(at));
    if (c.state == Utf8State::valid) {
      out.append(bytes.substr(at, c.length));
    } else {
      out.append(kReplacementUtf8);
    }
    at += c.length;
  }
  return out;
}

}  // namespace headrace::text
