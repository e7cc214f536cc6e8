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

#include "text/merge_table.h"
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
  // Of the stretches that are joined as one, from the stretch [begin, end) on.
  size_t end_of_run(std::string_view word, size_t begin, size_t end) const;
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
