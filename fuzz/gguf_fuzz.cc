// GGUF: parses, reads all metadata, decodes the ends of every tensor, and opens the file as a model with its
// configuration and vocabulary.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "io/gguf.h"
#include "io/gguf_source.h"
#include "reached.h"

namespace headrace {
namespace {

void read_array(const io::GgufArray& array) {
  (void)array.integers();
  (void)array.numbers();
  if (const auto strings = array.strings(); strings && strings->size() != array.count()) std::abort();
  const auto arrays = array.arrays();
  if (!arrays) return;
  for (const io::GgufArray& inner : *arrays) read_array(inner);
}

void read_metadata(const io::GgufFile& file) {
  for (const io::GgufEntry& entry : file.metadata()) {
    if (file.find(entry.key) != &entry) std::abort();
    if (const io::GgufArray* array = entry.array()) read_array(*array);
    (void)entry.integer();
    (void)entry.number();
  }
}

void read_tensor(Format format, std::span<const std::byte> bytes) {
  const FormatInfo& info = format_info(format);
  (void)check_finite_blocks(format, bytes);
  const size_t blocks = std::min<size_t>(bytes.size() / info.block_bytes, 4);
  std::vector<float> values(blocks * info.block_elements);
  const int64_t elements = static_cast<int64_t>(values.size());
  info.decode(bytes.data(), elements, values.data());
  info.decode(bytes.data() + bytes.size() - blocks * info.block_bytes, elements, values.data());
}

void open_model(std::span<const std::byte> bytes) {
  Result<io::GgufFile> file = io::GgufFile::parse(bytes);
  Result<io::GgufModel> model = io::GgufModel::from_file(std::move(*file));
  if (!model) return;
  const auto source = io::make_gguf_source(std::move(*model), "fuzz");
  if (!source) return;
  std::vector<std::byte> scratch;
  for (const io::SourceTensor& tensor : (*source)->tensors()) {
    if ((*source)->find(tensor.name) != &tensor) std::abort();
    if ((*source)->bytes(tensor, scratch).value().size() != tensor.bytes) std::abort();
  }
  (void)(*source)->vocab();
}

}  // namespace
}  // namespace headrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  static fuzz::Reached reached("tensor data");
  reached.input();
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<io::GgufFile> file = io::GgufFile::parse(bytes);
  if (!file) {
    if (file.error().message().empty()) std::abort();
    return 0;
  }
  read_metadata(*file);
  for (const io::GgufTensor& tensor : file->tensors()) read_tensor(tensor.format, file->data(tensor));
  if (!file->tensors().empty()) reached.hit();
  open_model(bytes);
  return 0;
}
