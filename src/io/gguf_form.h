#pragma once
// A checkpoint in GGUF's form: what GgufWriter writes, with the metadata that goes before it.

#include <memory>
#include <string>
#include <vector>

#include "io/gguf_names.h"
#include "io/gguf_writer.h"
#include "io/model_source.h"

namespace headrace::io {

struct GgufForm {
  const Family* family = nullptr;  // as which the file presents itself
  // The source follows Hugging Face's conventions and not yet GGUF's: vectors become f32, norms take the one that GGUF stores,
  // rows of q and k go where GGUF's rotation wants them, and what the table of weights does not know is left out.
  bool from_hugging_face = false;
  std::vector<float> rope_factors = {};  // not empty: of the tensor rope_freqs, one for each frequency
};
// Errors: malformed for q and k that do not fall into heads; unsupported for a checkpoint without weights that the table knows.
Result<std::unique_ptr<ModelSource>> gguf_form(std::unique_ptr<ModelSource> source, const GgufForm& form);

// general.file_type and general.quantization_version of these tensors. The first is left out where no one format has most of the
// weights, or llama.cpp gives it no number.
void add_file_type(const ModelSource& source, GgufMetadata& metadata);

}  // namespace headrace::io
