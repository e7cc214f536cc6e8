#pragma once
// Unigram (SentencePiece's language model): of all ways to cut a word into tokens, the one with the highest
// sum of scores. Time: the word's length times the longest token, at most kMaxToken bytes.

#include <cstdint>
#include <vector>

#include "text/model.h"
#include "text/vocabulary.h"

namespace headrace::text {

class Unigram final : public Model {
 public:
  static constexpr size_t kMaxToken = 1024;
  struct Options {
    int32_t unk_id = -1;
    bool byte_fallback = false;
  };
  // `vocabulary` outlives the model. `scores` has one per id; NaN for a token that takes no part. Error:
  // malformed, for a token over kMaxToken.
  static Result<std::unique_ptr<Unigram>> make(const Vocabulary& vocabulary, std::vector<double> scores,
                                               Options options);
  Status tokenize(std::string_view word, std::vector<Token>& out) const override;

 private:
  // A trie whose edges are one hash table: (node, byte) -> node.
  class Trie {
   public:
    explicit Trie(size_t num_edges);
    void insert(std::string_view text, int32_t id);
    int32_t child(int32_t node, char byte) const;
    int32_t id_at(int32_t node) const { return ids_[node]; }

   private:
    struct Edge {
      int64_t key = -1;
      int32_t node = -1;
    };
    size_t slot_of(int64_t key) const;
    std::vector<Edge> edges_;
    std::vector<int32_t> ids_{-1};  // by node; the root is 0
  };

  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, Options options, size_t num_bytes);
  Status emit(std::string_view word, uint32_t begin, uint32_t end, std::vector<Token>& out) const;

  const Vocabulary& vocabulary_;
  std::vector<double> scores_;
  Options options_;
  double unknown_score_ = 0;
  Trie trie_;
};

}  // namespace headrace::text
