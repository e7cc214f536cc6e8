#pragma once
// GGUF metadata as the rest of Headrace wants it, and back: configuration under Hugging Face keys, and the vocabulary.
// Tensor names are weight_names.h's.

#include "io/config_map.h"
#include "io/gguf_model.h"
#include "io/gguf_writer.h"
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

// The architecture and its keys. What GGUF has no key for is left out: whether that changes the model, only its program tells.
// Errors: malformed for a key that is missing or of another type, unsupported for rotations that have no key.
Status add_config(const ConfigMap& config, const Family& family, GgufMetadata& metadata);
// Of the kinds gpt2 and llama.
void add_vocab(const VocabMetadata& vocab, GgufMetadata& metadata);

}  // namespace headrace::io
