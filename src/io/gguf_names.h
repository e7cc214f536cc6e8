#pragma once
// GGUF metadata as the rest of Headrace wants it: configuration under Hugging Face keys, and the vocabulary.
// Tensor names are weight_names.h's.

#include "io/config_map.h"
#include "io/gguf_model.h"
#include "io/vocab_metadata.h"
#include "io/weight_names.h"

namespace headrace::io {

// The family of the file's general.architecture. Errors: malformed (no such key), unsupported.
Result<const Family*> gguf_family(const GgufModel& model);
// Errors: malformed when a key that the family needs is missing or of another type, unsupported for what a
// model file cannot express (a width that changes from layer to layer).
Result<ConfigMap> config_from_gguf(const GgufModel& model, const Family& family);
// Errors: not_found (no vocabulary in the file), malformed.
Result<VocabMetadata> vocab_from_gguf(const GgufModel& model);

}  // namespace headrace::io
