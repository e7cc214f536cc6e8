#include "onnx/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "io/shown_name.h"

namespace headrace::onnx {
namespace {

using io::shown_name;

constexpr std::string_view kMagic = "\x93NUMPY";

struct Row {
  std::string_view descr;
  DType dtype;
};
constexpr Row kRows[] = {
    {"<f4", DType::f32}, {"<f8", DType::f64}, {"<f2", DType::f16}, {"|b1", DType::boolean}, {"|i1", DType::i8},   {"|u1", DType::u8},
    {"<i2", DType::i16}, {"<u2", DType::u16}, {"<i4", DType::i32}, {"<u4", DType::u32},     {"<i8", DType::i64},  {"<u8", DType::u64},
    {"<c8", DType::c64}, {"<c16", DType::c128},
};

// What stands behind 'key': in the header, a Python dictionary on one line.
Result<std::string_view> field(std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos) return error(Code::malformed, "npy: the header has no '{}'", key);
  std::string_view rest = header.substr(at + key.size() + 2);
  rest.remove_prefix(std::min(rest.find_first_not_of(": "), rest.size()));
  return rest;
}

Result<Dims> read_shape(std::string_view text) {
  if (!text.starts_with('(')) return error(Code::malformed, "npy: want a shape such as (2, 3), got \"{}\"", shown_name(text));
  text.remove_prefix(1);
  Dims dims;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
    if (text.starts_with(')')) return dims;
    int64_t dim = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (failed != std::errc() || dims.size() == kMaxTensorRank) return error(Code::malformed, "npy: want dims, got \"{}\"", shown_name(text));
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    dims.push_back(dim);
  }
}

}  // namespace

Result<Tensor> parse_npy(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 10 || text[6] < 1 || text[6] > 3) return error(Code::malformed, "not an npy file");
  const size_t width = text[6] == 1 ? 2 : 4;
  if (text.size() < 8 + width) return error(Code::malformed, "npy: the file ends in its header");
  uint32_t length = 0;
  std::memcpy(&length, text.data() + 8, width);
  if (length > text.size() - 8 - width) return error(Code::malformed, "npy: the file ends in its header");
  const std::string_view header = text.substr(8 + width, length), data = text.substr(8 + width + length);
  HR_ASSIGN_OR_RETURN(std::string_view descr, field(header, "descr"));
  HR_ASSIGN_OR_RETURN(const std::string_view order, field(header, "fortran_order"));
  HR_ASSIGN_OR_RETURN(const std::string_view shape, field(header, "shape"));
  HR_ASSIGN_OR_RETURN(Dims dims, read_shape(shape));
  HR_ASSIGN_OR_RETURN(const int64_t elements, count_elements(dims));
  descr = descr.substr(std::min<size_t>(1, descr.size()));  // the quote
  descr = descr.substr(0, descr.find('\''));
  const Row* row = nullptr;
  for (const Row& each : kRows) {
    if (each.descr == descr) row = &each;
  }
  if (row == nullptr) return error(Code::unsupported, "npy: elements of type '{}'", shown_name(descr));
  if (!order.starts_with("False") && elements > 1 && dims.size() > 1) {
    return error(Code::unsupported, "npy: in Fortran order; save it with numpy.ascontiguousarray");
  }
  const uint64_t wanted = static_cast<uint64_t>(elements) * dtype_bytes(row->dtype);
  if (data.size() != wanted) {
    return error(Code::malformed, "npy: shape [{}] of {}: want {} bytes, got {}", fmt::join(dims, ", "), dtype_name(row->dtype), wanted, data.size());
  }
  Tensor tensor(row->dtype, std::move(dims));
  if (wanted > 0) std::memcpy(tensor.raw(), data.data(), wanted);
  if (row->dtype == DType::boolean) {
    for (uint64_t i = 0; i < wanted; ++i) tensor.raw()[i] = std::byte{tensor.raw()[i] != std::byte{0}};
  }
  return tensor;
}

Result<std::string> npy_bytes(const Tensor& tensor) {
  for (const Row& row : kRows) {
    if (row.dtype != tensor.dtype()) continue;
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", row.descr, fmt::join(tensor.dims(), ", "),
                                     tensor.rank() == 1 ? "," : "");
    constexpr size_t kBefore = kMagic.size() + 4;
    header.append(63 - (kBefore + header.size()) % 64, ' ').push_back('\n');  // data begin at a multiple of 64
    const auto length = static_cast<uint16_t>(header.size());
    std::string bytes(kMagic);
    bytes += std::string_view("\1\0", 2);
    bytes.append(reinterpret_cast<const char*>(&length), 2).append(header);
    return bytes.append(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  }
  return error(Code::unsupported, "npy: numpy has no type {}", dtype_name(tensor.dtype()));
}

}  // namespace headrace::onnx
