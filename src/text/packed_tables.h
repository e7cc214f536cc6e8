#pragma once
// Readers of the tables that tools/generate_unicode_tables.py packs.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace headrace::text {

inline uint32_t read_varint(std::span<const uint8_t> bytes, size_t& at) {
  uint32_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = bytes[at++];
    value |= static_cast<uint32_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

// What some code points become: a few thousand short strings, in one arena.
class CodeMap {
 public:
  explicit CodeMap(std::span<const uint8_t> data) {
    char32_t code = 0;
    for (size_t at = 0; at < data.size();) {
      code += read_varint(data, at);
      const uint8_t length = data[at++];
      spans_.emplace(code, Span{static_cast<uint32_t>(codes_.size()), length});
      for (int i = 0; i < length; ++i) codes_.push_back(read_varint(data, at));
    }
  }
  std::u32string_view find(char32_t code) const {
    const auto found = spans_.find(code);
    if (found == spans_.end()) return {};
    return std::u32string_view(codes_).substr(found->second.begin, found->second.length);
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [code, span] : spans_)
      visit(code, std::u32string_view(codes_).substr(span.begin, span.length));
  }

 private:
  struct Span {
    uint32_t begin;
    uint32_t length;
  };
  std::unordered_map<char32_t, Span> spans_;
  std::u32string codes_;
};

}  // namespace headrace::text
