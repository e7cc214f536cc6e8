#pragma once
// The GGUF container, versions 2 and 3 (little-endian): metadata and tensor positions, checked whole before
// anything is handed out. Strings and arrays are views into the file's bytes. Parsing takes time and memory
// linear in the header (sorting names adds a logarithm); no count from the file is believed before the bytes
// for it are there. Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "io/mapped_file.h"
#include "quant/format.h"

namespace headrace::io {

enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
std::string_view gguf_type_name(GgufType type);

// An array of the metadata, checked when the file was parsed: reading its elements cannot leave the file.
class GgufArray {
 public:
  GgufArray(GgufType element, uint64_t count, std::span<const std::byte> bytes)
      : element_(element), count_(count), bytes_(bytes) {}
  GgufType element() const { return element_; }
  uint64_t count() const { return count_; }
  std::span<const std::byte> bytes() const { return bytes_; }  // as they lie in the file

  // The elements, where their type allows: integers that fit int64 (booleans as 0 and 1); numbers; strings;
  // arrays.
  std::optional<std::vector<int64_t>> integers() const;
  std::optional<std::vector<double>> numbers() const;
  std::optional<std::vector<std::string_view>> strings() const;
  std::optional<std::vector<GgufArray>> arrays() const;

 private:
  GgufType element_;
  uint64_t count_;
  std::span<const std::byte> bytes_;
};

struct GgufEntry {
  std::string_view key;
  GgufType type;
  // Unsigned integers, signed integers, floats and booleans by their widest type.
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray> value;

  std::optional<int64_t> integer() const;  // any integer type, when it fits
  std::optional<double> number() const;    // any integer or float type
  std::optional<bool> boolean() const;
  std::optional<std::string_view> string() const;
  const GgufArray* array() const { return std::get_if<GgufArray>(&value); }
};

struct GgufTensor {
  std::string_view name;
  Format format;
  uint32_t rank;                 // 0 to 4
  std::array<uint64_t, 4> dims;  // as stored: innermost first; 1 beyond the rank
  uint64_t offset;               // from the start of the file
  uint64_t bytes;
};

class GgufFile {
 public:
  // Errors: not_found, malformed, unsupported (a version or a tensor type that Headrace does not read).
  static Result<GgufFile> open(const std::string& path);
  // `bytes` must outlive the result.
  static Result<GgufFile> parse(std::span<const std::byte> bytes);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  std::span<const GgufEntry> metadata() const { return metadata_; }
  const GgufEntry* find(std::string_view key) const;
  std::span<const GgufTensor> tensors() const { return tensors_; }
  std::span<const std::byte> data(const GgufTensor& tensor) const {
    return bytes_.subspan(tensor.offset, tensor.bytes);
  }
  // Bytes [offset, offset + bytes) of `tensor` were read: their pages may leave memory.
  void drop(const GgufTensor& tensor, uint64_t offset, uint64_t bytes) const { file_.drop(tensor.offset + offset, bytes); }

 private:
  friend class GgufParser;
  MappedFile file_;  // empty after parse()
  std::span<const std::byte> bytes_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::vector<GgufEntry> metadata_;
  std::vector<uint32_t> by_key_;  // indexes of metadata_, sorted by key
  std::vector<GgufTensor> tensors_;
};

}  // namespace headrace::io
