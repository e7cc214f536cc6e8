// Chooses the container by what lies at the path.
#include "io/model_source.h"

#include <filesystem>

#include "io/gguf_source.h"

namespace headrace::io {

Result<std::unique_ptr<ModelSource>> ModelSource::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return error(Code::unsupported, "{} is a folder; want a GGUF file", path);
  }
  HR_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(path));
  return make_gguf_source(std::move(file), path);
}

Result<VocabMetadata> ModelSource::vocab() const {
  return error(Code::not_found, "{} carries no vocabulary of its own", path());
}

}  // namespace headrace::io
