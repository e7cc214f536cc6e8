#include "onnx/tensor_proto.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

#include <onnx/onnx-ml.pb.h>

#include "io/shown_name.h"

namespace headrace::onnx {
namespace {

using ::onnx::SparseTensorProto;
using ::onnx::TensorProto;

static_assert(std::endian::native == std::endian::little, "ONNX's raw data is little-endian");

constexpr uint64_t kShownBytes = uint64_t{64} << 10;     // smaller tensors are copied
constexpr uint64_t kFreeDenseBytes = uint64_t{16} << 20;  // sparse tensors may grow to this much,
constexpr uint64_t kMaxDenseGrowth = 256;                 // or to this many times the bytes of their values and indices

struct DTypeNumber {
  DType dtype;
  TensorProto::DataType number;
};
constexpr DTypeNumber kNumbers[] = {
    {DType::f32, TensorProto::FLOAT},         {DType::u8, TensorProto::UINT8},
    {DType::i8, TensorProto::INT8},           {DType::u16, TensorProto::UINT16},
    {DType::i16, TensorProto::INT16},         {DType::i32, TensorProto::INT32},
    {DType::i64, TensorProto::INT64},         {DType::string, TensorProto::STRING},
    {DType::boolean, TensorProto::BOOL},      {DType::f16, TensorProto::FLOAT16},
    {DType::f64, TensorProto::DOUBLE},        {DType::u32, TensorProto::UINT32},
    {DType::u64, TensorProto::UINT64},        {DType::c64, TensorProto::COMPLEX64},
    {DType::c128, TensorProto::COMPLEX128},   {DType::bf16, TensorProto::BFLOAT16},
    {DType::f8e4m3fn, TensorProto::FLOAT8E4M3FN}, {DType::f8e4m3fnuz, TensorProto::FLOAT8E4M3FNUZ},
    {DType::f8e5m2, TensorProto::FLOAT8E5M2}, {DType::f8e5m2fnuz, TensorProto::FLOAT8E5M2FNUZ},
    {DType::u4, TensorProto::UINT4},          {DType::i4, TensorProto::INT4},
    {DType::f4e2m1, TensorProto::FLOAT4E2M1}, {DType::f8e8m0, TensorProto::FLOAT8E8M0},
    {DType::u2, TensorProto::UINT2},          {DType::i2, TensorProto::INT2},
};

// Bits of an element in a file.
unsigned stored_bits(DType dtype) {
  switch (dtype) {
    case DType::i4:
    case DType::u4:
    case DType::f4e2m1: return 4;
    case DType::i2:
    case DType::u2: return 2;
    default: return static_cast<unsigned>(dtype_bytes(dtype)) * 8;
  }
}

uint64_t stored_bytes(DType dtype, int64_t elements) {
  return (static_cast<uint64_t>(elements) * stored_bits(dtype) + 7) / 8;
}

// Fills a tensor from the bytes that its file holds: as many as stored_bytes says. Codes below a byte lie low bits first.
void unpack(const std::byte* from, Tensor& tensor) {
  const unsigned bits = stored_bits(tensor.dtype());
  if (bits >= 8) {
    if (tensor.bytes() > 0) std::memcpy(tensor.raw(), from, tensor.bytes());
    if (tensor.dtype() == DType::boolean) {
      for (int64_t i = 0; i < tensor.elements(); ++i) tensor.raw()[i] = std::byte{tensor.raw()[i] != std::byte{0}};
    }
    return;
  }
  const bool is_signed = tensor.dtype() == DType::i4 || tensor.dtype() == DType::i2;
  const unsigned in_byte = 8 / bits, mask = (1u << bits) - 1, sign = 1u << (bits - 1);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const auto index = static_cast<uint64_t>(i);
    unsigned code = (std::to_integer<unsigned>(from[index / in_byte]) >> (bits * (index % in_byte))) & mask;
    if (is_signed && (code & sign) != 0) code |= ~mask;
    tensor.raw()[i] = static_cast<std::byte>(code);
  }
}

std::string show(const Tensor& tensor) { return fmt::format("dims [{}] of {}", fmt::join(tensor.dims(), ", "), dtype_name(tensor.dtype())); }

Result<uint64_t> read_number(std::string_view key, std::string_view text) {
  uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) {
    return error(Code::malformed, "external data, {}: want a number, got \"{}\"", key, io::shown_name(text));
  }
  return number;
}

// Values of a typed field, each of which must fit into To.
template <class To, class From>
Status copy_field(const google::protobuf::RepeatedField<From>& from, std::byte* to) {
  for (int i = 0; i < from.size(); ++i) {
    const From value = from.Get(i);
    if constexpr (sizeof(To) < sizeof(From)) {
      if (value < static_cast<From>(std::numeric_limits<To>::min()) || value > static_cast<From>(std::numeric_limits<To>::max())) {
        return make_status(Code::malformed, "element {} is {}: want {} to {}", i, value, std::numeric_limits<To>::min(),
                           std::numeric_limits<To>::max());
      }
    }
    const To narrow = static_cast<To>(value);
    std::memcpy(to + static_cast<size_t>(i) * sizeof(To), &narrow, sizeof(To));
  }
  return {};
}

struct TypedField {
  const char* name = "";
  uint64_t values = 0, wanted = 0;
};

// The typed field that holds a tensor's elements, how many values it has and how many it must have.
TypedField typed_field(const TensorProto& proto, DType dtype, int64_t elements) {
  const auto count = static_cast<uint64_t>(elements);
  const auto size = [](int values) { return static_cast<uint64_t>(values); };
  switch (dtype) {
    case DType::f32: return {"float_data", size(proto.float_data_size()), count};
    case DType::c64: return {"float_data", size(proto.float_data_size()), 2 * count};
    case DType::f64: return {"double_data", size(proto.double_data_size()), count};
    case DType::c128: return {"double_data", size(proto.double_data_size()), 2 * count};
    case DType::i64: return {"int64_data", size(proto.int64_data_size()), count};
    case DType::u32:
    case DType::u64: return {"uint64_data", size(proto.uint64_data_size()), count};
    case DType::string: return {"string_data", size(proto.string_data_size()), count};
    default: return {"int32_data", size(proto.int32_data_size()), stored_bits(dtype) < 8 ? stored_bytes(dtype, elements) : count};
  }
}

Status read_typed(const TensorProto& proto, Tensor& tensor) {
  std::byte* to = tensor.raw();
  switch (tensor.dtype()) {
    case DType::f32:
    case DType::c64: return copy_field<float>(proto.float_data(), to);
    case DType::f64:
    case DType::c128: return copy_field<double>(proto.double_data(), to);
    case DType::i64: return copy_field<int64_t>(proto.int64_data(), to);
    case DType::u64: return copy_field<uint64_t>(proto.uint64_data(), to);
    case DType::u32: return copy_field<uint32_t>(proto.uint64_data(), to);
    case DType::i32: return copy_field<int32_t>(proto.int32_data(), to);
    case DType::i16: return copy_field<int16_t>(proto.int32_data(), to);
    case DType::i8: return copy_field<int8_t>(proto.int32_data(), to);
    case DType::u16:
    case DType::f16:
    case DType::bf16: return copy_field<uint16_t>(proto.int32_data(), to);
    case DType::string:
      for (int i = 0; i < proto.string_data_size(); ++i) tensor.data<std::string>()[i] = proto.string_data(i);
      return {};
    default: {  // bytes, or codes below a byte
      std::vector<std::byte> bytes(static_cast<size_t>(proto.int32_data_size()));
      HR_RETURN_IF_ERROR(copy_field<uint8_t>(proto.int32_data(), bytes.data()));
      unpack(bytes.data(), tensor);
      return {};
    }
  }
}

uint64_t all_typed(const TensorProto& proto) {
  return static_cast<uint64_t>(proto.float_data_size()) + static_cast<uint64_t>(proto.double_data_size()) +
         static_cast<uint64_t>(proto.int32_data_size()) + static_cast<uint64_t>(proto.int64_data_size()) +
         static_cast<uint64_t>(proto.uint64_data_size()) + static_cast<uint64_t>(proto.string_data_size());
}

Result<Dims> read_dims(const google::protobuf::RepeatedField<int64_t>& field) {
  if (static_cast<size_t>(field.size()) > kMaxTensorRank) {
    return error(Code::unsupported, "a rank of {}: want {} at most", field.size(), kMaxTensorRank);
  }
  return Dims(field.begin(), field.end());
}

// Where the bytes of a tensor lie outside of the model.
Result<DataFolder::Part> find_external(const TensorProto& proto, uint64_t wanted, DataFolder& folder) {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      HR_ASSIGN_OR_RETURN(offset, read_number("offset", entry.value()));
    } else if (entry.key() == "length") {
      HR_ASSIGN_OR_RETURN(length, read_number("length", entry.value()));
    }
  }
  if (length.value_or(wanted) != wanted) {
    return error(Code::malformed, "external data in \"{}\": want {} bytes, its length is {}", io::shown_name(location), wanted, *length);
  }
  return folder.find(location, offset, wanted);
}

}  // namespace

Result<DType> read_dtype(int64_t number) {
  for (const DTypeNumber& row : kNumbers) {
    if (row.number == number) return row.dtype;
  }
  if (number == TensorProto::FLOAT6E2M3 || number == TensorProto::FLOAT6E3M2) {
    return error(Code::unsupported, "elements of type {}", number == TensorProto::FLOAT6E2M3 ? "FLOAT6E2M3" : "FLOAT6E3M2");
  }
  return error(Code::malformed, "no element type has the number {}", number);
}

int dtype_number(DType dtype) {
  for (const DTypeNumber& row : kNumbers) {
    if (row.dtype == dtype) return row.number;
  }
  return TensorProto::UNDEFINED;
}

Result<std::span<const std::byte>> TensorReader::raw_data(const TensorProto& proto) const {
  const std::string& held = proto.raw_data();
  if (!raw_data_) return std::as_bytes(std::span(held));
  uint32_t number = 0;
  if (held.size() == sizeof number) std::memcpy(&number, held.data(), sizeof number);
  // Only a file whose tags protobuf reads otherwise than the walk over it can get here with anything else.
  if (held.size() != sizeof number || number >= raw_data_->size()) return error(Code::malformed, "raw_data with a damaged tag");
  return (*raw_data_)[number];
}

Result<Tensor> TensorReader::read(const TensorProto& proto) {
  HR_ASSIGN_OR_RETURN(const DType dtype, read_dtype(proto.data_type()));
  HR_ASSIGN_OR_RETURN(Dims dims, read_dims(proto.dims()));
  HR_ASSIGN_OR_RETURN(const int64_t elements, count_elements(dims));
  const std::string what = fmt::format("dims [{}] of {}", fmt::join(dims, ", "), dtype_name(dtype));
  if (proto.has_segment()) return error(Code::unsupported, "{}: a segment of a larger tensor", what);
  const bool external = proto.data_location() == TensorProto::EXTERNAL;
  if (int{external} + int{proto.has_raw_data()} + int{all_typed(proto) > 0} > 1) {
    return error(Code::malformed, "{}: data in more than one place (external, raw_data, typed fields)", what);
  }
  if ((external || proto.has_raw_data()) && dtype == DType::string) return error(Code::malformed, "{}: strings lie in string_data", what);
  if (external || proto.has_raw_data()) {
    const uint64_t wanted = stored_bytes(dtype, elements);
    DataFolder::Part part{file_, {}};
    if (external) {
      HR_ASSIGN_OR_RETURN(part, find_external(proto, wanted, folder_));
    } else {
      HR_ASSIGN_OR_RETURN(part.bytes, raw_data(proto));
    }
    const std::span<const std::byte> bytes = part.bytes;
    if (bytes.size() != wanted) return error(Code::malformed, "{}: want {} bytes, raw_data has {}", what, wanted, bytes.size());
    if (part.file != nullptr && bytes.size() >= kShownBytes && stored_bits(dtype) >= 8 && dtype != DType::boolean) {
      return Tensor::over(dtype, std::move(dims), std::make_shared<FileBytes>(std::move(part.file), bytes, dtype_bytes(dtype)));
    }
    Tensor tensor(dtype, std::move(dims));
    unpack(bytes.data(), tensor);
    return tensor;
  }
  const TypedField field = typed_field(proto, dtype, elements);
  if (field.values != field.wanted || field.values != all_typed(proto)) {
    return error(Code::malformed, "{}: want {} values in {}, got {} there and {} in others", what, field.wanted, field.name, field.values,
                 all_typed(proto) - field.values);
  }
  Tensor tensor(dtype, std::move(dims));
  const Status status = read_typed(proto, tensor);
  if (!status.ok()) return tl::unexpected<Status>(status.with_context(fmt::format("{}, {}", what, field.name)));
  return tensor;
}

Result<Tensor> TensorReader::read(const SparseTensorProto& proto) {
  HR_ASSIGN_OR_RETURN(const Tensor values, read(proto.values()));
  HR_ASSIGN_OR_RETURN(const Tensor indices, read(proto.indices()));
  HR_ASSIGN_OR_RETURN(Dims dims, read_dims(proto.dims()));
  HR_ASSIGN_OR_RETURN(const int64_t elements, count_elements(dims));
  if (values.dtype() == DType::string) return error(Code::unsupported, "sparse strings");
  const int64_t count = values.elements();
  const auto rank = static_cast<int64_t>(dims.size());
  const bool linear = indices.dims() == Dims{count};
  if (values.rank() != 1 || indices.dtype() != DType::i64 || (!linear && indices.dims() != Dims{count, rank})) {
    return error(Code::malformed, "sparse: want values [n] and i64 indices [n] or [n, {}], got {} and {}", rank, show(values), show(indices));
  }
  const uint64_t size = dtype_bytes(values.dtype()), bytes = static_cast<uint64_t>(elements) * size;
  const uint64_t allowed = std::max(kFreeDenseBytes, kMaxDenseGrowth * (values.bytes() + indices.bytes()));
  if (bytes > allowed || dense_bytes_ > allowed - bytes) {
    return error(Code::resource_exhausted, "sparse, dims [{}]: {} bytes when dense, want {} at most", fmt::join(dims, ", "), bytes, allowed);
  }
  dense_bytes_ += bytes;
  Tensor dense(values.dtype(), dims);
  int64_t before = -1;
  for (int64_t i = 0; i < count; ++i) {
    int64_t index = 0;
    for (int64_t axis = 0; axis < (linear ? 1 : rank); ++axis) {
      const int64_t limit = linear ? elements : dims[static_cast<size_t>(axis)];
      const int64_t at = indices.data<int64_t>()[linear ? i : i * rank + axis];
      if (at < 0 || at >= limit) return error(Code::malformed, "sparse: index {} of entry {} is outside of {}", at, i, limit);
      index = index * limit + at;
    }
    if (index <= before) return error(Code::malformed, "sparse: the indices of entry {} do not rise", i);
    before = index;
    std::memcpy(dense.raw() + static_cast<uint64_t>(index) * size, values.raw() + static_cast<uint64_t>(i) * size, size);
  }
  return dense;
}

void write_tensor(const Tensor& tensor, TensorProto& proto) {
  for (const int64_t dim : tensor.dims()) proto.add_dims(dim);
  proto.set_data_type(dtype_number(tensor.dtype()));
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.values<std::string>()) proto.add_string_data(text);
    return;
  }
  const unsigned bits = stored_bits(tensor.dtype());
  std::string& bytes = *proto.mutable_raw_data();
  bytes.assign(stored_bytes(tensor.dtype(), tensor.elements()), '\0');
  if (bits >= 8) {
    if (!bytes.empty()) std::memcpy(bytes.data(), tensor.raw(), bytes.size());
    return;
  }
  const unsigned in_byte = 8 / bits, mask = (1u << bits) - 1;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const auto index = static_cast<uint64_t>(i);
    const unsigned code = (std::to_integer<unsigned>(tensor.raw()[i]) & mask) << (bits * (index % in_byte));
    bytes[index / in_byte] = static_cast<char>(static_cast<unsigned char>(bytes[index / in_byte]) | code);
  }
}

}  // namespace headrace::onnx
