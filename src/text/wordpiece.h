#pragma once
// WordPiece (the longest known prefix, again and again) and WordLevel (a word is a token or unknown).

#include <string>

#include "text/model.h"
#include "text/vocabulary.h"

namespace headrace::text {

class WordPiece final : public Model {
 public:
  struct Options {
    std::string continuing_prefix = "##";
    size_t max_chars = 100;  // longer words are unknown
    int32_t unk_id = -1;
  };
  // `vocabulary` outlives the model.
  WordPiece(const Vocabulary& vocabulary, Options options);
  Status tokenize(std::string_view word, std::vector<Token>& out) const override;

 private:
  const Vocabulary& vocabulary_;
  Options options_;
  size_t longest_token_ = 0;
};

class WordLevel final : public Model {
 public:
  WordLevel(const Vocabulary& vocabulary, int32_t unk_id) : vocabulary_(vocabulary), unk_id_(unk_id) {}
  Status tokenize(std::string_view word, std::vector<Token>& out) const override;

 private:
  const Vocabulary& vocabulary_;
  int32_t unk_id_;
};

}  // namespace headrace::text
