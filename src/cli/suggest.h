#pragma once
// "Did you mean": the candidate nearest to a word that is not known.

#include <span>
#include <string>
#include <string_view>

namespace headrace::cli {

// The candidate with the fewest edits (insertions, deletions, replacements, swaps of neighbours), when they are few for
// the word's length or the candidate begins with the word; else "".
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace headrace::cli
