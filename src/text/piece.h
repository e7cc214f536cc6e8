#pragma once
// Text on its way through a tokenizer's pipeline, every byte knowing which bytes of the source it came from.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace headrace::text {

// A view; what it points to outlives the encode() call that made it.
struct Piece {
  std::string_view text;              // valid UTF-8
  const ByteRange* origin = nullptr;  // one per byte of `text`; nullptr: byte i came from source_begin + i
  uint32_t source_begin = 0;

  Piece sub(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), origin ? origin + begin : nullptr,
            static_cast<uint32_t>(source_begin + begin)};
  }
  // The source of bytes [begin, end) of `text`, begin < end.
  ByteRange source(size_t begin, size_t end) const {
    if (origin) return {origin[begin].begin, origin[end - 1].end};
    return {static_cast<uint32_t>(source_begin + begin), static_cast<uint32_t>(source_begin + end)};
  }
};

// Rewritten text with the source of each byte.
struct AlignedText {
  std::string text;
  std::vector<ByteRange> origin;

  void append(std::string_view bytes, ByteRange source) {
    text += bytes;
    origin.insert(origin.end(), bytes.size(), source);
  }
  // Bytes [begin, end) of `other`.
  void append(const AlignedText& other, size_t begin, size_t end) {
    text.append(other.text, begin, end - begin);
    origin.insert(origin.end(), other.origin.begin() + begin, other.origin.begin() + end);
  }
  Piece piece() const { return {text, origin.data(), 0}; }
};

// Owns the rewritten texts of one encode() call.
class PieceArena {
 public:
  AlignedText& add() { return texts_.emplace_back(); }

 private:
  std::deque<AlignedText> texts_;
};

}  // namespace headrace::text
