#pragma once
// The steps that cut normalized text into the words a model sees.

#include <memory>
#include <vector>

#include "text/piece.h"
#include "text/split_pattern.h"

namespace headrace::text {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Appends the words of `piece` (not empty) in order, none of them empty. What is rewritten lives in
  // `arena`.
  virtual void split(const Piece& piece, PieceArena& arena, std::vector<Piece>& out) const = 0;
};

using PreTokenizers = std::vector<std::unique_ptr<const PreTokenizer>>;

std::unique_ptr<const PreTokenizer> split_by_pattern(SplitPattern pattern);
// Numbers apart from the rest: each character for itself, or (not `individual`) each run.
std::unique_ptr<const PreTokenizer> split_digits(bool individual);
// Puts a space before a piece that does not begin with one.
std::unique_ptr<const PreTokenizer> add_prefix_space();

}  // namespace headrace::text
