#pragma once
// A set of strings, each with a non-negative id: all bytes in one arena, found by open addressing. Built
// once, then read from any thread. Three machine words and the string's bytes an entry.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::text {

uint64_t hash_bytes(std::string_view bytes);

class StringTable {
 public:
  void reserve(size_t num_strings, size_t num_bytes);
  // False when the string is there already (its id stays). Ids need not be distinct.
  bool insert(std::string_view text, int32_t id);
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
    return std::string_view(bytes_).substr(e.begin, e.length);
  }
  void grow(size_t num_strings);
  int32_t find_hashed(std::string_view text, uint64_t hash) const;

  std::string bytes_;
  std::vector<Entry> entries_;
  // The entry's number and the hash's upper half, so that a miss rarely touches the arena.
  struct Slot {
    uint32_t entry = kFree;
    uint32_t tag = 0;
  };
  std::vector<Slot> slots_;  // a power of two, at most two thirds full
};

}  // namespace headrace::text
