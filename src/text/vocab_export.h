#pragma once
// A tokenizer.json said in the words of VocabSpec, which GGUF files carry: byte-level BPE (model gpt2, its pre-tokenizer by name)
// and BPE with byte fallback as SentencePiece makes it (model llama, its merges as scores).

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "text/tokenizer.h"

namespace headrace::text {

struct ExportIds {
  int32_t num_tokens = 0;  // rows of the embedding: unused ids are filled up to it, added tokens beyond it are left out
  int32_t bos_id = -1, eos_id = -1, pad_id = -1;
};

// `tokenizer` was made of `json`. The specification gives the same ids as it for a text that tries what differs between
// tokenizers. What is lost: normalization to NFC, which no reader of GGUF does for gpt2. Errors: unsupported, saying which part
// cannot be said, or which text came out otherwise; malformed.
Result<VocabSpec> export_vocab(std::string_view json, const Tokenizer& tokenizer, const ExportIds& ids);

}  // namespace headrace::text
