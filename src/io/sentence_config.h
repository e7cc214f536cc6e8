#pragma once
// What lies beside the weights of an embedder that sentence-transformers saved: modules.json (the steps from a text to its
// vector), the pooling's config.json in a folder that it names, and sentence_bert_config.json (the longest text).

#include <string>

#include "base/status.h"
#include "io/config_map.h"

namespace headrace::io {

// Adds to `config` what these files of `folder` say, each of which may be missing:
//   sentence_modules      list of strings: Transformer, Pooling, Normalize, ... in order
//   pooling_mode          mean, cls, max, mean_sqrt_len, weightedmean or last; several are joined by '+'
//   max_seq_length        tokens, special ones included
//   sentence_lower_case   texts are put into lower case before the tokenizer sees them
// Errors: malformed, naming the file; also for a module's path that is not the plain name of a folder.
Status read_sentence_config(const std::string& folder, ConfigMap& config);

}  // namespace headrace::io
