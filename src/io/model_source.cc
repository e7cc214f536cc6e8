// Chooses the container by what lies at the path.
#include "io/model_source.h"

#include <filesystem>

#include "io/gguf_source.h"
#include "io/hf_source.h"

namespace headrace::io {

Result<std::unique_ptr<ModelSource>> ModelSource::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return open_hf_folder(path);
  if (path.ends_with(".safetensors") || path.ends_with(".json")) {
    return error(Code::unsupported, "{} is a part of a Hugging Face checkpoint; open its folder instead",
                 path);
  }
  HR_ASSIGN_OR_RETURN(GgufModel model, GgufModel::open(path));
  return make_gguf_source(std::move(model), path);
}

Result<VocabMetadata> ModelSource::vocab() const {
  return error(Code::not_found, "{} carries no vocabulary of its own", path());
}

}  // namespace headrace::io
