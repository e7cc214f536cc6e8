// safetensors: parses the header and decodes the ends of every tensor. A mutator keeps the length in front of
// the header true three times in four: plain mutations rarely get past it.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "reached.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// The header and the data behind it are mutated apart; then the length is set to what the header has become.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  uint64_t length = 0;
  if (size >= 8) std::memcpy(&length, data, 8);
  if (seed % 4 == 0 || size < 8 || length > size - 8) return LLVMFuzzerMutate(data, size, max_size);
  const size_t header = static_cast<size_t>(length);
  if (seed % 4 == 1)
    return 8 + header + LLVMFuzzerMutate(data + 8 + header, size - 8 - header, max_size - 8 - header);
  const std::vector<uint8_t> tail(data + 8 + header, data + size);
  const size_t changed = LLVMFuzzerMutate(data + 8, header, max_size - 8 - tail.size());
  std::copy(tail.begin(), tail.end(), data + 8 + changed);
  length = changed;
  std::memcpy(data, &length, 8);
  return 8 + changed + tail.size();
}

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
