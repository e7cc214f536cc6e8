#pragma once
// The part of a tokenizer that turns a word into ids.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/piece.h"

namespace headrace::text {

struct Token {
  int32_t id;
  uint32_t begin;  // bytes of the word
  uint32_t end;
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the word's tokens. Error: malformed, for a word that the vocabulary cannot spell.
  virtual Status tokenize(std::string_view word, std::vector<Token>& out) const = 0;
};

}  // namespace headrace::text
