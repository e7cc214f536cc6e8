#pragma once
// A model in GGUF as a ModelSource.

#include <memory>

#include "io/gguf_model.h"
#include "io/model_source.h"

namespace headrace::io {

// `path` names the source in messages and caches. Errors: malformed, unsupported (the architecture).
Result<std::unique_ptr<ModelSource>> make_gguf_source(GgufModel model, std::string path);

}  // namespace headrace::io
