#pragma once
// Byte-pair encoding: a word's characters (or bytes) are joined pair by pair, always the pair of lowest rank
// and of those the leftmost, until no pair of neighbours is in the list of merges. O(n log n) in the word's
// length.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_merge.h"
#include "text/huge_allocator.h"
#include "text/model.h"
#include "text/stretches.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

namespace headrace::text {

class Bpe : public Model {
 public:
  struct Options {
    // Words are raw bytes, the vocabulary spells them in the byte alphabet (byte_alphabet.h). Otherwise words
    // and vocabulary are UTF-8.
    bool byte_level = false;
    bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
    bool byte_fallback = false;  // a character without a token becomes its bytes' tokens "<0xNN>"
    bool fuse_unk = false;       // neighbouring unknown characters become one unknown token
    int32_t unk_id = -1;
    std::string continuing_subword_prefix;
    std::string end_of_word_suffix;
  };

  // `vocabulary` outlives the model. Merges are pairs of tokens, the first of lowest rank. Error: malformed,
  // for a merge whose parts or result are no tokens.
  static Result<std::unique_ptr<Bpe>> make(
      const Vocabulary& vocabulary, std::span<const std::pair<std::string_view, std::string_view>> merges, Options options);

  Status tokenize(std::string_view word, std::vector<Token>& out) const override;

 private:
  Status tokenize_stretch(std::string_view word, std::vector<Token>& out) const;
  // Pairs of ids -> merge, by open addressing: 16 bytes a slot, at most three quarters full. Most pairs that are looked up are
  // no merge: one bit of a table that stays in the second-level cache tells so.
  class MergeTable {
   public:
    explicit MergeTable(size_t num_merges);
    void insert(int32_t left, int32_t right, Merge merge);
    Merge find(int32_t left, int32_t right) const;
    // Asks for the memory that insert() or find() of the pair will look at.
    void prefetch(int32_t left, int32_t right) const {
      __builtin_prefetch(&slots_[first_slot(mix(key_of(left, right)))]);
    }

   private:
    static constexpr int kLogBits = 21;  // 256 KiB
    static uint64_t mix(uint64_t key) {
      key *= 0x9E3779B97F4A7C15;
      return key ^ key >> 32;
    }
    struct Slot {
      uint64_t key = UINT64_MAX;  // no pair: ids are non-negative
      Merge merge{kNoRank, -1};
    };
    static uint64_t key_of(int32_t left, int32_t right) {
      return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    }
    size_t first_slot(uint64_t mixed) const { return mixed & (slots_.size() - 1); }
    HugeVector<Slot> slots_;
    std::vector<uint64_t> maybe_ = std::vector<uint64_t>((size_t{1} << kLogBits) / 64);  // by the upper bits of mix()
  };

  Bpe(const Vocabulary& vocabulary, size_t num_merges, Options options);
  void symbols_of_bytes(std::string_view word, std::vector<Symbol>& out) const;
  void symbols_of_chars(std::string_view word, std::vector<Symbol>& out) const;

  const Vocabulary& vocabulary_;
  Options options_;
  MergeTable merges_;
  uint32_t num_ranks_;
  StringTable words_;  // byte-level: raw bytes -> id, for ignore_merges
  std::array<int32_t, 256> byte_ids_;
  std::array<int32_t, 128> ascii_ids_;  // of characters that stand alone; -1: no token
  bool by_place_ = false;               // a character's spelling depends on its place in the word
  // When every character can be spelled and nothing depends on its place in the word: where words can be cut.
  std::optional<Stretches> stretches_;
  uint64_t owner_ = WordCache::new_owner();
};

}  // namespace headrace::text
