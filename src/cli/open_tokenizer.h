#pragma once
// The tokenizer of a MODEL argument, without its weights.

#include <memory>
#include <string>

#include "base/status.h"
#include "text/tokenizer.h"

namespace headrace::cli {

// `path`: a GGUF file, a tokenizer.json, or a folder with one. Errors: not_found, malformed, unsupported.
Result<std::unique_ptr<text::Tokenizer>> open_tokenizer(const std::string& path);

}  // namespace headrace::cli
