#pragma once
// SentencePiece's byte-pair encoding: neighbours are joined when their text is a token, that of the highest
// score first and of those the leftmost. There is no list of merges, and words are not cut beforehand. O(n
// log n) in the text.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/bpe_merge.h"
#include "text/model.h"
#include "text/stretches.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

namespace headrace::text {

class ScoredBpe final : public Model {
 public:
  static constexpr size_t kMaxToken = 1024;  // bytes; the longest published are below 200

  // `vocabulary` outlives the model. `scores` has one per id; NaN for a token that joining never makes
  // (control tokens, tokens of bytes). A character without a token becomes its bytes' tokens "<0xNN>", and
  // where one of them is missing, `unk_id`. Error: malformed, for a token over kMaxToken.
  static Result<std::unique_ptr<ScoredBpe>> make(const Vocabulary& vocabulary,
                                                 const std::vector<float>& scores, int32_t unk_id);
  Status tokenize(std::string_view text, std::vector<Token>& out) const override;

 private:
  ScoredBpe(const Vocabulary& vocabulary, const std::vector<float>& scores, int32_t unk_id);
  int32_t find(std::string_view text) const;
  Status join(std::string_view text, uint32_t begin, uint32_t end, std::vector<Token>& out) const;
  void fuse_unknown(size_t from, std::vector<Token>& out) const;
  Status spell(std::string_view text, const Symbol& unknown, std::vector<Token>& out) const;

  const Vocabulary& vocabulary_;
  int32_t unk_id_;
  std::vector<uint32_t> rank_;  // by id, from the highest score on; kNoRank: not a result of joining
  std::array<int32_t, 256> byte_ids_;
  std::array<int32_t, 128> ascii_ids_;  // of characters; -1: no token
  bool spells_all_ = false;             // every byte has a token
  size_t longest_ = 0;
  Stretches stretches_;
  uint64_t owner_ = WordCache::new_owner();
};

}  // namespace headrace::text
