// The vocabulary of a GGUF file: reads it from any bytes, makes its tokenizer, then encodes and decodes.
#include <cstdlib>
#include <string_view>
#include <utility>

#include "engine/vocab_spec.h"
#include "io/gguf_model.h"
#include "io/gguf_names.h"
#include "reached.h"
#include "use_tokenizer.h"

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
  const auto tokenizer = text::Tokenizer::from_vocab(engine::to_spec(*std::move(vocab)));
  if (!tokenizer) {
    if (tokenizer.error().message().empty()) std::abort();
    return 0;
  }
  reached.hit();
  fuzz::use(**tokenizer, {reinterpret_cast<const char*>(data), size});
  return 0;
}
