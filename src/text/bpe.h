#pragma once
// Byte-pair encoding: a word's characters (or bytes) are joined pair by pair, always the pair of lowest rank
// and of those the leftmost, until no pair of neighbours is in the list of merges. O(n log n) in the word's
// length.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_merge.h"
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
      const Vocabulary& vocabulary, const std::vector<std::pair<std::string_view, std::string_view>>& merges,
      Options options);

  Status tokenize(std::string_view word, std::vector<Token>& out) const override;

 private:
  Status tokenize_stretch(std::string_view word, std::vector<Token>& out) const;
  // Pairs of ids -> merge, by open addressing: 16 bytes a slot, at most half full.
  class MergeTable {
   public:
    explicit MergeTable(size_t num_merges);
    void insert(int32_t left, int32_t right, Merge merge);
    Merge find(int32_t left, int32_t right) const;
    // Asks for the memory that insert() or find() of the pair will look at.
    void prefetch(int32_t left, int32_t right) const {
      __builtin_prefetch(&slots_[first_slot(key_of(left, right))]);
    }

   private:
    struct Slot {
      uint64_t key = UINT64_MAX;  // no pair: ids are non-negative
      Merge merge{kNoRank, -1};
    };
    static uint64_t key_of(int32_t left, int32_t right) {
      return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    }
    size_t first_slot(uint64_t key) const;
    std::vector<Slot> slots_;
  };

  Bpe(const Vocabulary& vocabulary, size_t num_merges, Options options);
  void symbols_of_bytes(std::string_view word, std::vector<Symbol>& out) const;
  void symbols_of_chars(std::string_view word, std::vector<Symbol>& out) const;

  const Vocabulary& vocabulary_;
  Options options_;
  MergeTable merges_;
  StringTable words_;  // byte-level: raw bytes -> id, for ignore_merges
  std::array<int32_t, 256> byte_ids_;
  // When every character can be spelled and nothing depends on its place in the word: where words can be cut.
  std::optional<Stretches> stretches_;
  uint64_t owner_ = WordCache::new_owner();
};

}  // namespace headrace::text
