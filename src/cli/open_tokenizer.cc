#include "cli/open_tokenizer.h"

#include <filesystem>
#include <system_error>

#include "engine/serving_model.h"
#include "io/gguf_model.h"
#include "io/gguf_names.h"
#include "io/mapped_file.h"
#include "io/model_source.h"

namespace headrace::cli {
namespace {

Result<std::unique_ptr<text::Tokenizer>> from_text_file(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  auto tokenizer = path.ends_with(".model") ? text::Tokenizer::from_sentencepiece(file.text())
                                            : text::Tokenizer::from_tokenizer_json(file.text());
  if (!tokenizer) return tl::unexpected(tokenizer.error().with_context(path));
  return tokenizer;
}

// A GGUF file's vocabulary does not need a model family that Headrace runs.
Result<std::unique_ptr<text::Tokenizer>> from_gguf_file(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const io::GgufModel model, io::GgufModel::open(path));
  auto vocab = io::vocab_from_gguf(model);
  if (!vocab) return tl::unexpected(vocab.error().with_context(path));
  return engine::tokenizer_of(*std::move(vocab));
}

}  // namespace

Result<std::unique_ptr<text::Tokenizer>> open_tokenizer(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const std::string inside = (fs::path(path) / "tokenizer.json").string();
    if (!fs::exists(inside, ignored)) {
      return error(Code::not_found, "{}: this folder holds no tokenizer.json", path);
    }
    return from_text_file(inside);
  }
  if (path.ends_with(".json") || path.ends_with(".model")) return from_text_file(path);
  if (path.ends_with(".gguf")) return from_gguf_file(path);
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ModelSource> source, io::ModelSource::open(path));
  return engine::tokenizer_of(*source);
}

}  // namespace headrace::cli
