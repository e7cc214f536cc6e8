#pragma once
// The vocabulary that a model file carries besides its weights, as plain values: text/ builds a tokenizer
// from it, io/ only reads it. Fields bear the names of GGUF's tokenizer.ggml.* keys.

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::io {

struct VocabMetadata {
  std::string model;  // gpt2, llama, bert, t5
  std::string pre;    // the pre-tokenizer's name; may be empty
  std::vector<std::string> tokens;
  std::vector<float> scores;   // empty, or one per token
  std::vector<int32_t> types;  // empty, or one per token: 1 normal 2 unknown 3 control 4 user 5 unused 6 byte
  std::vector<std::string> merges;  // "left right"
  // -1 when absent; else inside the vocabulary.
  int32_t bos_id = -1, eos_id = -1, unk_id = -1, pad_id = -1, eot_id = -1, cls_id = -1, sep_id = -1;
  bool add_bos = false, add_eos = false, add_space_prefix = false, remove_extra_whitespaces = false;
  bool lowercase = true, strip_accents = true;  // normalizer.* of bert
  std::string precompiled_charsmap;             // of t5; empty when absent
  std::string chat_template;  // Jinja source; empty when absent
};

}  // namespace headrace::io
