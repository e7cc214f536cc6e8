#include "cli/open_tokenizer.h"

#include <filesystem>
#include <system_error>

#include "io/mapped_file.h"
#include "io/model_source.h"

namespace headrace::cli {
namespace {

Result<std::unique_ptr<text::Tokenizer>> from_json_file(const std::string& path) {
  HR_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  const auto bytes = file.bytes();
  auto tokenizer =
      text::Tokenizer::from_tokenizer_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!tokenizer) return tl::unexpected(tokenizer.error().with_context(path));
  return tokenizer;
}

text::VocabSpec to_spec(io::VocabMetadata vocab) {
  text::VocabSpec spec;
  spec.model = std::move(vocab.model);
  spec.pre = std::move(vocab.pre);
  spec.tokens = std::move(vocab.tokens);
  spec.scores = std::move(vocab.scores);
  spec.types = std::move(vocab.types);
  spec.merges = std::move(vocab.merges);
  spec.bos_id = vocab.bos_id;
  spec.eos_id = vocab.eos_id;
  spec.unk_id = vocab.unk_id;
  spec.pad_id = vocab.pad_id;
  spec.add_bos = vocab.add_bos;
  spec.add_eos = vocab.add_eos;
  spec.add_space_prefix = vocab.add_space_prefix;
  return spec;
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
    return from_json_file(inside);
  }
  if (path.ends_with(".json")) return from_json_file(path);
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ModelSource> source, io::ModelSource::open(path));
  HR_ASSIGN_OR_RETURN(io::VocabMetadata vocab, source->vocab());
  auto tokenizer = text::Tokenizer::from_vocab(to_spec(std::move(vocab)));
  if (!tokenizer) return tl::unexpected(tokenizer.error().with_context(path));
  return tokenizer;
}

}  // namespace headrace::cli
