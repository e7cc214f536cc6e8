#pragma once
// A set of strings, each with a non-negative id, found by open addressing. One arena holds each string behind
// its length and its id: a look-up waits for memory twice, for the slot and for that. Built once, then read
// from any thread.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "text/huge_allocator.h"

namespace headrace::text {

uint64_t hash_bytes(std::string_view bytes);

class StringTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Of all strings, each filled up to 8 bytes and 8 more. Whoever inserts more than that has a bug.
  static constexpr size_t kMaxBytes = UINT32_MAX;

  void reserve(size_t num_strings, size_t num_bytes);
  // The string's place; kNone when it is there already (its id stays). Ids need not be distinct.
  uint32_t insert(std::string_view text, int32_t id) { return insert_hashed(text, hash_bytes(text), id); }
  // insert(), of a string whose hash_bytes() is known; prefetch() well before asks for the memory that it
  // looks at.
  uint32_t insert_hashed(std::string_view text, uint64_t hash, int32_t id);
  // Inlined by force: the compiler takes a function that only prefetches for one that does nothing, and drops
  // its calls.
  [[gnu::always_inline]] void prefetch(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }
  // -1 when it is not there.
  int32_t find(std::string_view text) const { return find_hashed(text, hash_bytes(text)); }
  // find() of each, with the memory of many fetched at a time. `ids` has the size of `texts`.
  void find_each(std::span<const std::string_view> texts, std::span<int32_t> ids) const;
  std::string_view text_at(uint32_t place) const {
    return {reinterpret_cast<const char*>(&arena_[place + 1]), header_at(place).length};
  }
  size_t num_bytes() const { return arena_.size() * sizeof(uint64_t); }

 private:
  struct Header {
    uint32_t length;
    int32_t id;
  };
  // The place and the hash's upper half, so that a miss rarely touches the arena.
  struct Slot {
    uint32_t place = kNone;
    uint32_t tag = 0;
  };

  Header header_at(uint32_t place) const { return std::bit_cast<Header>(arena_[place]); }
  bool is_at(uint32_t place, std::string_view text) const;
  void grow(size_t num_strings);
  int32_t find_hashed(std::string_view text, uint64_t hash) const;

  HugeVector<uint64_t>
      arena_;  // a header, then the bytes and zeros up to the next word, one zero at least; and so on
  size_t size_ = 0;
  HugeVector<Slot> slots_;  // a power of two, at most two thirds full
};

}  // namespace headrace::text
