#include "text/merge_table.h"

#include <algorithm>
#include <bit>

namespace headrace::text {

MergeTable::MergeTable(size_t num_merges, int32_t num_ids)
    : id_bits_(static_cast<int>(std::bit_width(static_cast<uint32_t>(std::max(num_ids, 2) - 1)))),
      pair_mask_((uint64_t{1} << 2 * id_bits_) - 1),
      made_(num_merges) {
  const int pair_bits = 2 * id_bits_;
  const int roomy = static_cast<int>(std::bit_width(num_merges + num_merges * 2 / 3 + 16));
  const int slot_bits = std::min(std::max(roomy, pair_bits - (32 - kAwayBits)), pair_bits);
  rest_bits_ = pair_bits - slot_bits;
  slots_.resize(size_t{1} << slot_bits);
}

bool MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t mixed = mix(left, right);
  size_t slot = mixed >> rest_bits_;
  uint32_t key = key_of(mixed);
  for (int away = 0; slots_[slot].rank != kNoRank && slots_[slot].key != key; ++key) {
    if (++away == kMaxAway) return false;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = {key, merge.rank};
  made_[merge.rank] = merge.id;
  maybe_[hint_of(mixed) / 64] |= uint64_t{1} << hint_of(mixed) % 64;
  return true;
}

}  // namespace headrace::text
