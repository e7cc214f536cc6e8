#pragma once
// The folder of a model, where its external data lies. A location is a relative path inside it: no absolute path, no "..", no link that
// leaves it. Files are mapped when they are first named; what is read from them all together is bounded by their sizes, since a hostile
// model may name the same gigabyte a thousand times. Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "io/mapped_file.h"

namespace headrace::onnx {

class DataFolder {
 public:
  explicit DataFolder(std::string folder) : folder_(std::move(folder)) {}  // "": there is none

  struct Part {
    std::shared_ptr<const io::MappedFile> file;
    std::span<const std::byte> bytes;  // of it
  };
  // The bytes [offset, offset + length) of a file; `length` absent: up to its end.
  Result<Part> find(const std::string& location, uint64_t offset, std::optional<uint64_t> length);

 private:
  Result<std::shared_ptr<const io::MappedFile>> open(const std::string& location);

  const std::string folder_;
  std::map<std::string, std::shared_ptr<const io::MappedFile>> files_;  // by resolved path
  uint64_t file_bytes_ = 0, read_bytes_ = 0;
};

}  // namespace headrace::onnx
