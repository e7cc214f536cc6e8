// Parses safetensors. The header is read by events (SAX), so that a hostile one builds no tree: what is not a
// tensor's field is dropped as it passes.
#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/shown_name.h"

namespace headrace::io {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// dtypes that the format defines and Headrace does not read.
constexpr std::array<std::string_view, 5> kUnread = {"F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "C64"};

// What one entry of the header says, unchecked.
struct RawTensor {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

// Follows the header's JSON. depth_ 0 is outside, 1 the top object, 2 a tensor's (or the metadata's) object,
// 3 a list in it; anything below an unknown field is counted in skip_ and forgotten.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<RawTensor> tensors;
  std::map<std::string, std::string> metadata;
  Status status;

  bool start_object(size_t) override {
    if (skip_ > 0) return ++skip_, true;
    if (depth_ == 0) return depth_ = 1, true;
    if (depth_ == 1) {
      depth_ = 2;
      if (!in_metadata_) tensors.push_back({.name = name_, .dtype = {}, .shape = {}, .offsets = {}});
      return true;
    }
    if (depth_ == 2 && !in_metadata_ && field_ == Field::unknown) return skip_ = 1, true;
    return unexpected("an object");
  }
  bool end_object() override {
    if (skip_ > 0) return --skip_, true;
    return --depth_, true;
  }
  bool start_array(size_t) override {
    if (skip_ > 0) return ++skip_, true;
    if (depth_ == 2 && !in_metadata_) {
      if (field_ == Field::unknown) return skip_ = 1, true;
      if (field_ == Field::shape || field_ == Field::offsets) {
        list().emplace();
        return depth_ = 3, true;
      }
    }
    return unexpected("a list");
  }
  bool end_array() override {
    if (skip_ > 0) return --skip_, true;
    return depth_ = 2, true;
  }
  bool key(std::string& text) override {
    if (skip_ > 0) return true;
    if (depth_ == 1) {
      name_ = text;
      in_metadata_ = text == "__metadata__";
    } else if (in_metadata_) {
      name_ = text;
    } else {
      return choose_field(text);
    }
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (skip_ > 0) return true;
    if (depth_ == 3) return list()->push_back(value), true;
    return ignore_or("a number");
  }
  bool string(std::string& text) override {
    if (skip_ > 0) return true;
    if (depth_ == 2 && in_metadata_) return metadata[name_] = std::move(text), true;
    if (depth_ == 2 && field_ == Field::dtype) return tensors.back().dtype = std::move(text), true;
    return ignore_or("a string");
  }
  bool null() override { return (depth_ == 1 && in_metadata_) || ignore_or("null"); }
  bool boolean(bool) override { return ignore_or("a boolean"); }
  bool number_integer(int64_t) override { return ignore_or("a negative number"); }
  bool number_float(double, const std::string&) override { return ignore_or("a fraction"); }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    status = make_status(Code::malformed, "the header is not valid JSON at its byte {}", position);
    return false;
  }

 private:
  enum class Field : uint8_t { dtype, shape, offsets, unknown };

  bool choose_field(std::string_view text) {
    RawTensor& tensor = tensors.back();
    field_ = text == "dtype"          ? Field::dtype
             : text == "shape"        ? Field::shape
             : text == "data_offsets" ? Field::offsets
                                      : Field::unknown;
    const bool twice = (field_ == Field::dtype && tensor.dtype) || (field_ == Field::shape && tensor.shape) ||
                       (field_ == Field::offsets && tensor.offsets);
    if (!twice) return true;
    status = make_status(Code::malformed, "tensor '{}' has the field {} twice", shown_name(name_), text);
    return false;
  }
  std::optional<std::vector<uint64_t>>& list() {
    return field_ == Field::shape ? tensors.back().shape : tensors.back().offsets;
  }
  bool ignore_or(std::string_view what) {
    if (skip_ > 0 || (depth_ == 2 && !in_metadata_ && field_ == Field::unknown)) return true;
    return unexpected(what);
  }
  bool unexpected(std::string_view what) {
    const std::string_view wanted =
        depth_ == 2 && in_metadata_
            ? "a string"
            : "an object with dtype (a string), shape and data_offsets (lists of whole numbers)";
    status = make_status(Code::malformed, "'{}' holds {}; the header wants {} there", shown_name(name_), what,
                         wanted);
    return false;
  }

  int depth_ = 0;
  uint64_t skip_ = 0;
  bool in_metadata_ = false;
  std::string name_;  // of the tensor, or of the metadata entry
  Field field_ = Field::unknown;
};

// Checks one entry by itself. Its place among the others is check_cover()'s.
Result<SafetensorsTensor> check_tensor(RawTensor& raw, uint64_t data_bytes) {
  if (!raw.dtype || !raw.shape || !raw.offsets) {
    return error(Code::malformed, "lacks {}", !raw.dtype ? "dtype" : !raw.shape ? "shape" : "data_offsets");
  }
  SafetensorsTensor tensor{
      .name = std::move(raw.name), .format = Format::f32, .shape = {}, .offset = 0, .bytes = 0};
  const std::optional<Format> format = format_from_safetensors(*raw.dtype);
  if (!format) {
    const bool known = std::ranges::find(kUnread, *raw.dtype) != kUnread.end();
    return error(known ? Code::unsupported : Code::malformed, "dtype '{}' {}", shown_name(*raw.dtype),
                 known ? "is not one that Headrace reads" : "is not one of the format");
  }
  tensor.format = *format;
  // A dimension of 0 makes an empty tensor; the others must still multiply without overflow.
  int64_t elements = 1;
  bool empty = false;
  for (const uint64_t dim : *raw.shape) {
    empty = empty || dim == 0;
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        __builtin_mul_overflow(elements, static_cast<int64_t>(std::max<uint64_t>(dim, 1)), &elements)) {
      return error(Code::malformed, "its shape has 2^63 elements or more");
    }
    tensor.shape.push_back(static_cast<int64_t>(dim));
  }
  HR_ASSIGN_OR_RETURN(const uint64_t bytes,
                      format_bytes(*format, empty ? 0 : static_cast<uint64_t>(elements)));
  if (raw.offsets->size() != 2) {
    return error(Code::malformed, "data_offsets has {} numbers; want begin and end", raw.offsets->size());
  }
  const uint64_t begin = (*raw.offsets)[0], end = (*raw.offsets)[1];
  if (begin > end || end > data_bytes) {
    return error(Code::malformed, "data_offsets {} to {}; want begin <= end <= {} (the data's size)", begin,
                 end, data_bytes);
  }
  if (end - begin != bytes) {
    return error(Code::malformed, "its shape and dtype want {} bytes, data_offsets give {}", bytes,
                 end - begin);
  }
  tensor.offset = begin;
  tensor.bytes = bytes;
  return tensor;
}

Status check_names(std::span<const SafetensorsTensor> tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const SafetensorsTensor& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return Status();
  return make_status(Code::malformed, "tensor '{}' appears twice", shown_name(*twice));
}

// Sorted by place, each tensor begins where the one before it ends, and the last ends with the file.
Status check_cover(std::span<const SafetensorsTensor> tensors, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.offset != end) {
      return make_status(Code::malformed,
                         "tensor '{}' begins at {} of the data; the one before it ends at {}",
                         shown_name(tensor.name), tensor.offset, end);
    }
    end += tensor.bytes;
  }
  if (end == data_bytes) return Status();
  return make_status(Code::malformed, "the data has {} bytes, the tensors cover {}", data_bytes, end);
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes) {
  if (bytes.size() < 8)
    return error(Code::malformed, "{} bytes; a safetensors file starts with 8 of header length",
                 bytes.size());
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > kMaxHeaderBytes || length > bytes.size() - 8) {
    return error(Code::malformed, "a header of {} bytes; the file has {} more, and the format allows {}",
                 length, bytes.size() - 8, kMaxHeaderBytes);
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  if (!header.starts_with('{')) return error(Code::malformed, "the header does not begin with '{{'");
  const uint64_t data_start = 8 + length;
  const uint64_t data_bytes = bytes.size() - data_start;

  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header, &reader)) return tl::unexpected<Status>(std::move(reader.status));
  SafetensorsFile file;
  file.bytes_ = bytes;
  file.metadata_ = std::move(reader.metadata);
  file.tensors_.reserve(reader.tensors.size());
  for (RawTensor& raw : reader.tensors) {
    const std::string name = shown_name(raw.name);
    Result<SafetensorsTensor> tensor = check_tensor(raw, data_bytes);
    if (!tensor) return tl::unexpected<Status>(tensor.error().with_context(fmt::format("tensor '{}'", name)));
    file.tensors_.push_back(std::move(*tensor));
  }
  HR_RETURN_IF_ERROR(check_names(file.tensors_));
  // Empty tensors stand before the one that begins at the same place.
  std::ranges::sort(file.tensors_, [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  HR_RETURN_IF_ERROR(check_cover(file.tensors_, data_bytes));
  for (SafetensorsTensor& tensor : file.tensors_) tensor.offset += data_start;
  return file;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  HR_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  Result<SafetensorsFile> parsed = parse(mapped.bytes());
  if (!parsed) return tl::unexpected<Status>(parsed.error().with_context(path));
  parsed->file_ = std::move(mapped);
  return parsed;
}

}  // namespace headrace::io
