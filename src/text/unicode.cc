#include "text/unicode.h"

#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace headrace::text {
namespace {

#include "text/unicode_data.inc"

constexpr size_t kCodes = 0x110000;
constexpr size_t kBlock = 128;

// A value of one byte per code point: blocks of 128, equal blocks stored once, so that a look-up is two loads
// from about 40 KiB.
class ByteMap {
 public:
  explicit ByteMap(std::span<const uint8_t> runs) {
    std::vector<uint8_t> flat;
    flat.reserve(kCodes);
    for (size_t at = 0; at < runs.size();) {
      size_t length = 0;
      for (unsigned shift = 0;; shift += 7) {
        const uint8_t byte = runs[at++];
        length |= static_cast<size_t>(byte & 0x7F) << shift;
        if (byte < 0x80) break;
      }
      flat.insert(flat.end(), length, runs[at++]);
    }
    flat.resize(kCodes);
    std::map<std::string_view, uint16_t> seen;
    for (size_t block = 0; block < kCodes / kBlock; ++block) {
      const std::string_view bytes(reinterpret_cast<const char*>(flat.data()) + block * kBlock, kBlock);
      const auto [it, added] = seen.try_emplace(bytes, static_cast<uint16_t>(seen.size()));
      if (added) values_.insert(values_.end(), bytes.begin(), bytes.end());
      index_[block] = it->second;
    }
  }

  uint8_t operator[](char32_t code) const {
    return code < kCodes ? values_[index_[code / kBlock] * kBlock + code % kBlock] : 0;
  }

 private:
  std::array<uint16_t, kCodes / kBlock> index_;
  std::vector<uint8_t> values_;
};

}  // namespace

Category category(char32_t code) {
  static const ByteMap categories(kCategoryRuns);
  return static_cast<Category>(categories[code]);
}

}  // namespace headrace::text
