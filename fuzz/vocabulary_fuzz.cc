// The vocabulary of a GGUF file: reads it from any bytes, makes its tokenizer, then encodes and decodes.
#include <cstdlib>
#include <string_view>
#include <utility>

#include "io/gguf_model.h"
#include "io/gguf_names.h"
#include "reached.h"
#include "use_tokenizer.h"

namespace headrace {
namespace {

text::VocabSpec spec_of(io::VocabMetadata vocab) {
  text::VocabSpec spec;
  spec.model = std::move(vocab.model);
  spec.pre = std::move(vocab.pre);
  spec.tokens = std::move(vocab.tokens);
  spec.scores = std::move(vocab.scores);
  spec.types = std::move(vocab.types);
  spec.merges = std::move(vocab.merges);
  spec.precompiled_charsmap = std::move(vocab.precompiled_charsmap);
  spec.bos_id = vocab.bos_id;
  spec.eos_id = vocab.eos_id;
  spec.unk_id = vocab.unk_id;
  spec.cls_id = vocab.cls_id;
  spec.sep_id = vocab.sep_id;
  spec.add_bos = vocab.add_bos;
  spec.add_eos = vocab.add_eos;
  spec.add_space_prefix = vocab.add_space_prefix;
  spec.remove_extra_whitespaces = vocab.remove_extra_whitespaces;
  spec.lowercase = vocab.lowercase;
  spec.strip_accents = vocab.strip_accents;
  return spec;
}

}  // namespace
}  // namespace headrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  static fuzz::Reached reached("encoding");
  reached.input();
  Result<io::GgufFile> file = io::GgufFile::parse({reinterpret_cast<const std::byte*>(data), size});
  if (!file) return 0;
  const Result<io::GgufModel> model = io::GgufModel::from_file(std::move(*file));
  if (!model) return 0;
  auto vocab = io::vocab_from_gguf(*model);
  if (!vocab) return 0;
  const auto tokenizer = text::Tokenizer::from_vocab(spec_of(*std::move(vocab)));
  if (!tokenizer) {
    if (tokenizer.error().message().empty()) std::abort();
    return 0;
  }
  reached.hit();
  fuzz::use(**tokenizer, {reinterpret_cast<const char*>(data), size});
  return 0;
}
