#include "text/unicode.h"

#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/packed_tables.h"

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
      const uint32_t length = read_varint(runs, at);
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

const CodeMap& canonical_map() {
  static const CodeMap map(kCanonical);
  return map;
}

struct Composition {
  std::unordered_map<uint64_t, char32_t> composed;
  std::vector<bool> unstable;

  static uint64_t key(char32_t first, char32_t second) { return static_cast<uint64_t>(first) << 32 | second; }

  Composition() : unstable(kCodes) {
    std::vector<bool> is_composed(kCodes);
    CodeMap(kComposed).for_each([&](char32_t code, std::u32string_view pair) {
      composed.emplace(key(pair[0], pair[1]), code);
      is_composed[code] = true;
      // The first of a pair changes only where a second follows it.
      unstable[pair[1]] = true;
    });
    canonical_map().for_each([&](char32_t code, std::u32string_view) {
      if (!is_composed[code]) unstable[code] = true;
    });
    for (char32_t code = 0; code < kCodes; ++code) {
      if (combining_class(code) != 0) unstable[code] = true;
    }
    for (char32_t code = 0x1160; code < 0x1200; ++code) unstable[code] = true;  // Hangul vowels and finals
  }
};

const Composition& composition() {
  static const Composition table;
  return table;
}

}  // namespace

Category category(char32_t code) {
  static const ByteMap categories(kCategoryRuns);
  return static_cast<Category>(categories[code]);
}

void for_each_category_run(const std::function<void(char32_t, char32_t, Category)>& visit) {
  char32_t code = 0;
  for (size_t at = 0; at < std::size(kCategoryRuns);) {
    const uint32_t length = read_varint(kCategoryRuns, at);
    visit(code, code + length - 1, static_cast<Category>(kCategoryRuns[at++]));
    code += length;
  }
}

uint8_t properties(char32_t code) {
  static const ByteMap map(kPropertyRuns);
  return map[code];
}

uint8_t script_group(char32_t code) {
  static const ByteMap map(kScriptRuns);
  return map[code];
}

uint8_t combining_class(char32_t code) {
  static const ByteMap map(kCombiningRuns);
  return map[code];
}

std::u32string_view canonical_decomposition(char32_t code) {
  return canonical_map().find(code);
}

std::u32string_view compatible_decomposition(char32_t code) {
  static const CodeMap map(kCompatible);
  const auto found = map.find(code);
  return found.empty() ? canonical_decomposition(code) : found;
}

std::u32string_view lowercase(char32_t code) {
  static const CodeMap map(kLowercase);
  return map.find(code);
}

std::u32string_view python_upper(char32_t code) {
  static const CodeMap map(kPythonUpper);
  return map.find(code);
}

std::u32string_view python_lower(char32_t code) {
  static const CodeMap map(kPythonLower);
  return map.find(code);
}

std::u32string_view python_title(char32_t code) {
  static const CodeMap map(kPythonTitle);
  return map.find(code);
}

char32_t compose(char32_t first, char32_t second) {
  const auto found = composition().composed.find(Composition::key(first, second));
  return found == composition().composed.end() ? 0 : found->second;
}

bool is_stable_under_nfc(char32_t code) {
  return code < 0x80 || (code < kCodes && !composition().unstable[code]);
}

}  // namespace headrace::text
