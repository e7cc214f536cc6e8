#include "text/charsmap.h"

#include <algorithm>

#include "text/utf8.h"

namespace headrace::text {
namespace {

// A unit of the double array. The child of the node with offset `o` for byte `c` stands at `o ^ c`; when the
// child is the end of a string, the unit at the child's own offset holds the value.
struct Unit {
  uint32_t bits;
  uint32_t offset() const { return bits >> 10 << ((bits & 1u << 9) >> 6); }
  uint32_t label() const { return bits & (1u << 31 | 0xFF); }
  bool ends_string() const { return bits >> 8 & 1; }
  uint32_t value() const { return bits & ~(1u << 31); }
};

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob) {
  const uint64_t num_bytes = blob.size() < 4 ? 0 : little_endian(blob);
  if (num_bytes == 0 || num_bytes % 4 != 0 || num_bytes > blob.size() - 4) {
    return error(Code::malformed,
                 "precompiled_charsmap: {} bytes with an array of {}; want whole units inside it",
                 blob.size(), num_bytes);
  }
  Charsmap map;
  map.units_.reserve(num_bytes / 4);
  for (size_t at = 4; at < 4 + num_bytes; at += 4) map.units_.push_back(little_endian(blob.substr(at)));
  map.replacements_ = blob.substr(4 + num_bytes);
  if (!is_valid_utf8(map.replacements_)) {
    return error(Code::malformed, "precompiled_charsmap: the replacements are not UTF-8");
  }
  map.replacements_.push_back('\0');
  for (size_t begin = 0, end; begin < map.replacements_.size(); begin = end + 1) {
    end = map.replacements_.find('\0', begin);
    if (end - begin > kMaxReplacement) {
      return error(Code::malformed, "precompiled_charsmap: want replacements of at most {} bytes, got {}",
                   kMaxReplacement, end - begin);
    }
  }
  return map;
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text, bool longest) const {
  std::optional<Match> found;
  uint32_t node = Unit{units_[0]}.offset();
  const size_t most = std::min(text.size(), kMaxSource);
  for (size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) break;
    const Unit unit{units_[node]};
    if (unit.label() != byte) break;
    node ^= unit.offset();
    if (node >= units_.size()) break;
    if (!unit.ends_string()) continue;
    const uint32_t begin = Unit{units_[node]}.value();
    // Inside a character there is no replacement.
    if (begin >= replacements_.size() || (static_cast<uint8_t>(replacements_[begin]) & 0xC0) == 0x80) break;
    found =
        Match{i + 1, std::string_view(replacements_).substr(begin, replacements_.find('\0', begin) - begin)};
    if (!longest) break;
  }
  return found;
}

}  // namespace headrace::text
