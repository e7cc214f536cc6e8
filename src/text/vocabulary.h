#pragma once
// Ids and the strings they stand for. Ids may have gaps; both directions are one look-up.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/string_table.h"

namespace headrace::text {

class Vocabulary {
 public:
  // Published vocabularies end below 2^18; an id beyond this in a small file only asks for memory.
  static constexpr int64_t kMaxId = (1 << 22) - 1;

  void reserve(size_t num_tokens, size_t num_bytes) { table_.reserve(num_tokens, num_bytes); }
  // Errors: malformed, for an id that is negative, taken or over kMaxId, for a token that is there already, and for more than
  // 4 GiB of tokens.
  Status add(std::string_view token, int64_t id);
  // add() of each pair, the memory for several fetched at a time.
  template <class Pairs>
  Status add_all(const Pairs& pairs) {
    constexpr size_t kBatch = 32;
    uint64_t hashes[kBatch];
    for (size_t begin = 0; begin < pairs.size(); begin += kBatch) {
      const size_t n = std::min(kBatch, pairs.size() - begin);
      for (size_t i = 0; i < n; ++i) {
        hashes[i] = hash_bytes(pairs[begin + i].first);
        table_.prefetch(hashes[i]);
      }
      for (size_t i = 0; i < n; ++i) {
        HR_RETURN_IF_ERROR(add_hashed(pairs[begin + i].first, hashes[i], pairs[begin + i].second));
      }
    }
    return {};
  }
  // -1 when it is not there.
  int32_t find(std::string_view token) const { return table_.find(token); }
  void find_each(std::span<const std::string_view> tokens, std::span<int32_t> ids) const {
    table_.find_each(tokens, ids);
  }
  bool has(int32_t id) const { return id >= 0 && id < size() && place_of_[id] != StringTable::kNone; }
  // Empty outside the vocabulary.
  std::string_view text(int32_t id) const {
    return has(id) ? table_.text_at(place_of_[id]) : std::string_view();
  }
  int32_t size() const { return static_cast<int32_t>(place_of_.size()); }  // 1 + the largest id

 private:
  Status add_hashed(std::string_view token, uint64_t hash, int64_t id);

  StringTable table_;
  std::vector<uint32_t> place_of_;  // by id, in table_; kNone: a gap
};

}  // namespace headrace::text
