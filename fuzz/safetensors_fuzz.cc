// safetensors: parses the header and decodes the ends of every tensor.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "io/safetensors.h"
#include "reached.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  static fuzz::Reached reached("tensor data");
  reached.input();
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<io::SafetensorsFile> file = io::SafetensorsFile::parse(bytes);
  if (!file) {
    if (file.error().message().empty()) std::abort();
    return 0;
  }
  uint64_t covered = 0;
  for (const io::SafetensorsTensor& tensor : file->tensors()) {
    const std::span<const std::byte> values = file->data(tensor);
    const FormatInfo& info = format_info(tensor.format);
    (void)check_finite_blocks(tensor.format, values);
    std::vector<float> out(std::min<size_t>(values.size() / info.block_bytes, 4));
    const int64_t elements = static_cast<int64_t>(out.size());
    info.decode(values.data(), elements, out.data());
    info.decode(values.data() + values.size() - out.size() * info.block_bytes, elements, out.data());
    covered += tensor.bytes;
  }
  if (covered > size) std::abort();
  if (covered > 0) reached.hit();
  return 0;
}
