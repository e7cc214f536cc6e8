#pragma once
// Pairs of ids and the merge that each stands for, by open addressing. A slot has 8 bytes: mix() is
// one-to-one, so that its upper bits, which choose the slot, and its lower bits, which the slot keeps, say
// together which pair it is. Built once, then read from any thread.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/bpe_merge.h"
#include "text/huge_allocator.h"

namespace headrace::text {

class MergeTable {
 public:
  // Ids are from 0 to `num_ids` - 1 and have at most 22 bits; ranks are below `num_merges`.
  MergeTable(size_t num_merges, int32_t num_ids);

  // Of a pair that is given twice the last merge counts. False when the pair's place and those behind it are
  // taken, which does not happen to vocabularies that nobody made for it.
  bool insert(int32_t left, int32_t right, Merge merge);

  // Its rank is kNoRank when the pair is not there.
  Merge find(int32_t left, int32_t right) const {
    const uint64_t mixed = mix(left, right);
    if (!(maybe_[hint_of(mixed) / 64] >> hint_of(mixed) % 64 & 1)) return {kNoRank, -1};
    size_t slot = mixed >> rest_bits_;
    uint32_t key = key_of(mixed);
    for (int away = 0; away < kMaxAway && slots_[slot].rank != kNoRank; ++away, ++key) {
      if (slots_[slot].key == key) return {slots_[slot].rank, made_[slots_[slot].rank]};
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return {kNoRank, -1};
  }

  // Asks for the memory that insert() or find() of the pair will look at. Inlined by force: the compiler
  // takes a function that only prefetches for one that does nothing, and drops its calls.
  [[gnu::always_inline]] void prefetch(int32_t left, int32_t right) const {
    __builtin_prefetch(&slots_[mix(left, right) >> rest_bits_]);
  }

 private:
  struct Slot {
    uint32_t key = 0;  // the lower bits of mix() and, in kAwayBits, how many slots from the pair's own one this is
    uint32_t rank = kNoRank;
  };
  static constexpr int kAwayBits = 8, kMaxAway = 1 << kAwayBits;
  static constexpr int kHintBits = 22;  // 512 KiB

  // Below 2^(2 * id_bits_).
  uint64_t mix(int32_t left, int32_t right) const {
    constexpr uint64_t odd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio
    uint64_t pair =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << id_bits_ | static_cast<uint32_t>(right);
    pair = pair * odd & pair_mask_;
    pair ^= pair >> id_bits_;
    return pair * odd & pair_mask_;
  }
  uint32_t key_of(uint64_t mixed) const {
    return static_cast<uint32_t>(mixed & ((uint64_t{1} << rest_bits_) - 1)) << kAwayBits;
  }
  static uint64_t hint_of(uint64_t mixed) { return mixed & ((uint64_t{1} << kHintBits) - 1); }

  int id_bits_;
  int rest_bits_;  // of mix(), those that do not choose the slot: at most 32 - kAwayBits
  uint64_t pair_mask_;
  HugeVector<Slot> slots_;    // a power of two, at most three fifths full: runs of 256 do not happen by chance
  HugeVector<int32_t> made_;  // the ids that the merges make, by rank
  // A bit is set where a pair with this hint is there. Most pairs that are looked up are not, and this stays
  // in the second-level cache.
  std::vector<uint64_t> maybe_ = std::vector<uint64_t>((size_t{1} << kHintBits) / 64);
};

}  // namespace headrace::text
