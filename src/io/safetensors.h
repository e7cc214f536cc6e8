#pragma once
// One safetensors file: a JSON header and the bytes behind it. The whole header is checked before anything is
// handed out: tensors lie one behind the other and cover the data exactly, as the format demands. Time and
// memory are linear in the header, which may have 100 MB (the format's own limit). Layout:
// https://github.com/huggingface/safetensors#format

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/mapped_file.h"
#include "quant/format.h"

namespace headrace::io {

struct SafetensorsTensor {
  std::string name;
  Format format;
  std::vector<int64_t> shape;  // outermost first; a 0 makes a tensor of no bytes
  uint64_t offset;             // from the start of the file
  uint64_t bytes;
};

class SafetensorsFile {
 public:
  // Errors: not_found, malformed, unsupported (a dtype of the format that Headrace does not read).
  static Result<SafetensorsFile> open(const std::string& path);
  // `bytes` must outlive the result.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes);

  std::span<const SafetensorsTensor> tensors() const { return tensors_; }  // by offset
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::span<const std::byte> data(const SafetensorsTensor& tensor) const {
    return bytes_.subspan(tensor.offset, tensor.bytes);
  }
  // Bytes [offset, offset + bytes) of `tensor` were read: their pages may leave memory.
  void drop(const SafetensorsTensor& tensor, uint64_t offset, uint64_t bytes) const { file_.drop(tensor.offset + offset, bytes); }

 private:
  MappedFile file_;  // empty after parse()
  std::span<const std::byte> bytes_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace headrace::io
