#pragma once
// A set of strings, each with a non-negative id: all bytes in one arena, found by open addressing. Built
// once, then read from any thread. Three machine words and the string's bytes an entry.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "text/huge_allocator.h"

namespace headrace::text {

uint64_t hash_bytes(std::string_view bytes);

class StringTable {
 public:
  void reserve(size_t num_strings, size_t num_bytes);
  // False when the string is there already (its id stays). Ids need not be distinct.
  bool insert(std::string_view text, int32_t id);
  // insert(), of a string whose hash_bytes() is known; prefetch() well before asks for the memory that it looks at.
  bool insert_hashed(std::string_view text, uint64_t hash, int32_t id);
  void prefetch(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }
  // -1 when it is not there.
  int32_t find(std::string_view text) const;
  // find() of each, with the memory of many fetched at a time. `ids` has the size of `texts`.
  void find_each(std::span<const std::string_view> texts, std::span<int32_t> ids) const;
  size_t size() const { return entries_.size(); }
  // The string that was inserted as the n-th, from 0.
  std::string_view text_at(size_t n) const { return text_of(entries_[n]); }

 private:
  struct Entry {
    size_t begin;
    uint32_t length;
    int32_t id;
  };
  static constexpr uint32_t kFree = UINT32_MAX;

  std::string_view text_of(const Entry& e) const {
    return {bytes_.data() + e.begin, e.length};
  }
  void grow(size_t num_strings);
  int32_t find_hashed(std::string_view text, uint64_t hash) const;

  std::basic_string<char, std::char_traits<char>, HugeAllocator<char>> bytes_;
  HugeVector<Entry> entries_;
  // The entry's number and the hash's upper half, so that a miss rarely touches the arena.
  struct Slot {
    uint32_t entry = kFree;
    uint32_t tag = 0;
  };
  HugeVector<Slot> slots_;  // a power of two, at most two thirds full
};

}  // namespace headrace::text
