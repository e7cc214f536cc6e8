#pragma once
// What of a checkpoint concerns text: tokenizer, chat template, the ids that end an answer, the names of its special tokens.
// They come from the metadata of a GGUF file, or from the small files beside safetensors as transformers reads them.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace headrace::io {
class ModelSource;
struct VocabMetadata;
}

namespace headrace::engine {

struct TextParts {
  std::unique_ptr<text::Tokenizer> tokenizer;         // null where the checkpoint has none (dummy weights)
  std::unique_ptr<text::ChatTemplate> chat_template;  // null where it has none
  std::vector<int32_t> end_ids;                       // beside those of the model's configuration
  std::map<std::string, std::string> special_tokens;  // template variables: bos_token, eos_token, ... as text
};

// A folder: tokenizer.json; the template of chat_template.jinja, else the one (or the one named "default") in
// tokenizer_config.json; special tokens of special_tokens_map.json, else of tokenizer_config.json. A GGUF file: its metadata, where
// a missing bos_token or eos_token is the empty text. Errors: malformed, naming file and key; unsupported.
Result<TextParts> open_text_parts(const io::ModelSource& source);

// The same of a folder, as the metadata of a GGUF file: what text::export_vocab() makes of its tokenizer.json for as many tokens as
// the embedding has rows, special tokens, chat template. Errors: those of open_text_parts() and export_vocab(); not_found without
// a tokenizer.json.
Result<io::VocabMetadata> export_text_parts(const io::ModelSource& folder);

}  // namespace headrace::engine
