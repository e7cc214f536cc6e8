#pragma once
// How byte-level vocabularies of GGUF files cut their text: by the name in tokenizer.ggml.pre.

#include <string_view>

#include "text/pre_tokenizer.h"

namespace headrace::text {

struct NamedSplit {
  PreTokenizers steps;
  bool ignore_merges;  // a word that is a token is that token, whatever the merges say
};

// An empty name is "default". Error: unsupported, naming those that are known.
Result<NamedSplit> split_named(std::string_view name);

}  // namespace headrace::text
