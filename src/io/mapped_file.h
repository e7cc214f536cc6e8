#pragma once
// A file mapped read-only. Its bytes stay at one address until the object is destroyed; moving keeps the
// address. Another process that truncates the file while it is mapped ends this one (SIGBUS): replace model
// files by renaming.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace headrace::io {

class MappedFile {
 public:
  // Regular files only; an empty file maps to no bytes. Errors: not_found (no such file, no permission),
  // malformed (a directory or a device), resource_exhausted (no descriptors or address space left).
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // Lets the pages that lie wholly inside [offset, offset + bytes) leave memory; they come back from the file
  // when they are read again. Ranges outside the file are ignored.
  void drop(uint64_t offset, uint64_t bytes) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The whole of a file, copied. Errors: those of open().
Result<std::string> read_file(const std::string& path);

}  // namespace headrace::io
