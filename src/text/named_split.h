#pragma once
// How byte-level vocabularies of GGUF files cut their text: by the name in tokenizer.ggml.pre.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pre_tokenizer.h"

namespace headrace::text {

struct NamedSplit {
  PreTokenizers steps;
  bool ignore_merges;  // a word that is a token is that token, whatever the merges say
};

// An empty name is "default". Error: unsupported, naming those that are known.
Result<NamedSplit> split_named(std::string_view name);

// A name's steps, in their order: regular expressions that keep matches and what lies between, digits, a pattern.
struct SplitSteps {
  std::vector<std::string> regexes;
  bool digits_apart = false;
  std::optional<SplitPattern> pattern;
  bool ignore_merges = false;
};
// The first name whose steps are these; empty where none has them.
std::string_view find_split_name(const SplitSteps& steps);

}  // namespace headrace::text
