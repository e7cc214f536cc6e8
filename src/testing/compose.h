#pragma once
// What can be asked of the engine together: every pair of features on a tiny checkpoint, either with the bits of the same request
// alone or refused with both names. docs/composition.md shows the outcome.

#include <string>
#include <vector>

namespace headrace::testing {

struct Pair {
  std::string first, second;
  std::string refusal;  // what submit said of a pair that has no meaning; empty: it ran
  std::string failure;  // empty: nothing went wrong
};
// Every pair of features, the first one's row after row.
std::vector<Pair> run_pairs();
// The page of docs/composition.md.
std::string composition_page(const std::vector<Pair>& pairs);

}  // namespace headrace::testing
