// Parses GGUF. Cursor hands out bytes only after checking that they are there; GgufParser holds the rules.
#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

#include "io/shown_name.h"

namespace headrace::io {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are read in place as little-endian");

constexpr int kMaxArrayDepth = 8;
constexpr uint64_t kMaxNameBytes = 65535;  // the format's own limit for keys; also kept for tensor names
constexpr uint32_t kMaxDims = 4;

constexpr std::array<std::string_view, 13> kTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

// Bytes of one element; 0 for strings and arrays.
constexpr uint64_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

// Tensor types that the format defines, for messages about those that Headrace does not read.
std::string tensor_type_name(uint32_t type) {
  struct Row {
    uint32_t type;
    std::string_view name;
  };
  static constexpr Row kNames[] = {{9, "Q8_1"},     {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
                                   {18, "IQ3_XXS"}, {19, "IQ1_S"}, {21, "IQ3_S"},   {22, "IQ2_S"},
                                   {29, "IQ1_M"},   {34, "TQ1_0"}, {35, "TQ2_0"},   {40, "NVFP4"},
                                   {41, "Q1_0"}};
  for (const Row& row : kNames) {
    if (row.type == type) return fmt::format("{} ({})", type, row.name);
  }
  return fmt::format("{} (which GGUF does not define)", type);
}

std::string readable_formats() {
  std::string names;
  for (const FormatInfo& info : all_formats()) {
    if (info.gguf_type < 0) continue;
    if (!names.empty()) names += ' ';
    names += info.name;
  }
  return names;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Reads forward through bytes. Every read is checked against what remains and says what was wanted there.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <class T>
  Result<T> scalar(std::string_view what) {
    HR_ASSIGN_OR_RETURN(std::span<const std::byte> bytes, take(sizeof(T), what));
    return load<T>(bytes.data());
  }

  Result<std::span<const std::byte>> take(uint64_t count, std::string_view what) {
    if (count > remaining()) {
      return error(Code::malformed,
                   "{} at byte {}: want {} bytes, the file has {} left; it is cut short or damaged", what,
                   position_, count, remaining());
    }
    const std::span<const std::byte> bytes = bytes_.subspan(position_, count);
    position_ += count;
    return bytes;
  }

  Result<std::string_view> string(std::string_view what) {
    HR_ASSIGN_OR_RETURN(const uint64_t length, scalar<uint64_t>(what));
    HR_ASSIGN_OR_RETURN(std::span<const std::byte> bytes, take(length, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  std::span<const std::byte> since(uint64_t start) const { return bytes_.subspan(start, position_ - start); }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

Result<GgufType> value_type(Cursor& in, std::string_view what) {
  HR_ASSIGN_OR_RETURN(const uint32_t type, in.scalar<uint32_t>(what));
  if (type >= kTypeNames.size()) {
    return error(Code::malformed, "{}: value type {} at byte {}; GGUF defines 0 to {}", what, type,
                 in.position() - 4, kTypeNames.size() - 1);
  }
  return static_cast<GgufType>(type);
}

Result<GgufArray> read_array(Cursor& in, std::string_view what, int depth);

// Moves past `count` elements after checking each; afterwards the bytes can be read without checks.
Status skip_elements(Cursor& in, GgufType element, uint64_t count, std::string_view what, int depth) {
  // The fewest bytes an element can take: a string's length, an array's type and count.
  const uint64_t least = element == GgufType::string  ? 8
                         : element == GgufType::array ? 12
                                                      : scalar_bytes(element);
  if (count > in.remaining() / least) {
    return make_status(Code::malformed,
                       "{}: an array of {} {} at byte {}, but the file has only {} bytes left", what, count,
                       gguf_type_name(element), in.position(), in.remaining());
  }
  if (element == GgufType::string) {
    for (uint64_t i = 0; i < count; ++i) {
      if (auto text = in.string(what); !text) return text.error();
    }
    return Status();
  }
  if (element == GgufType::array) {
    for (uint64_t i = 0; i < count; ++i) {
      if (auto inner = read_array(in, what, depth + 1); !inner) return inner.error();
    }
    return Status();
  }
  HR_ASSIGN_OR_RETURN(std::span<const std::byte> bytes, in.take(count * least, what));
  if (element == GgufType::boolean) {
    for (const std::byte value : bytes) {
      if (value > std::byte{1})
        return make_status(Code::malformed, "{}: a bool has the value {}", what, int(value));
    }
  }
  return Status();
}

Result<GgufArray> read_array(Cursor& in, std::string_view what, int depth) {
  if (depth > kMaxArrayDepth) {
    return error(Code::malformed, "{}: arrays nested more than {} deep at byte {}", what, kMaxArrayDepth,
                 in.position());
  }
  HR_ASSIGN_OR_RETURN(const GgufType element, value_type(in, what));
  HR_ASSIGN_OR_RETURN(const uint64_t count, in.scalar<uint64_t>(what));
  const uint64_t start = in.position();
  HR_RETURN_IF_ERROR(skip_elements(in, element, count, what, depth));
  return GgufArray(element, count, in.since(start));
}

using Value = decltype(GgufEntry::value);

Value load_scalar(GgufType type, const std::byte* at) {
  switch (type) {
    case GgufType::u8:
      return uint64_t{load<uint8_t>(at)};
    case GgufType::u16:
      return uint64_t{load<uint16_t>(at)};
    case GgufType::u32:
      return uint64_t{load<uint32_t>(at)};
    case GgufType::u64:
      return load<uint64_t>(at);
    case GgufType::i8:
      return int64_t{load<int8_t>(at)};
    case GgufType::i16:
      return int64_t{load<int16_t>(at)};
    case GgufType::i32:
      return int64_t{load<int32_t>(at)};
    case GgufType::i64:
      return load<int64_t>(at);
    case GgufType::f32:
      return double{load<float>(at)};
    case GgufType::f64:
      return load<double>(at);
    default:
      return load<uint8_t>(at) != 0;
  }
}

std::optional<int64_t> as_integer(const Value& value) {
  if (const auto* natural = std::get_if<uint64_t>(&value)) {
    if (*natural <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return static_cast<int64_t>(*natural);
  }
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  return std::nullopt;
}

std::optional<double> as_number(const Value& value) {
  if (const auto* natural = std::get_if<uint64_t>(&value)) return static_cast<double>(*natural);
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  return kTypeNames[static_cast<size_t>(type)];
}

std::optional<int64_t> GgufEntry::integer() const {
  return as_integer(value);
}
std::optional<double> GgufEntry::number() const {
  return as_number(value);
}
std::optional<bool> GgufEntry::boolean() const {
  const auto* flag = std::get_if<bool>(&value);
  return flag == nullptr ? std::nullopt : std::optional<bool>(*flag);
}
std::optional<std::string_view> GgufEntry::string() const {
  const auto* text = std::get_if<std::string_view>(&value);
  return text == nullptr ? std::nullopt : std::optional<std::string_view>(*text);
}

std::optional<std::vector<int64_t>> GgufArray::integers() const {
  const uint64_t size = scalar_bytes(element_);
  if (size == 0 || element_ == GgufType::f32 || element_ == GgufType::f64) return std::nullopt;
  std::vector<int64_t> out;
  out.reserve(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    const Value value = load_scalar(element_, bytes_.data() + i * size);
    const auto* flag = std::get_if<bool>(&value);
    const std::optional<int64_t> integer =
        flag != nullptr ? std::optional<int64_t>(*flag) : as_integer(value);
    if (!integer) return std::nullopt;
    out.push_back(*integer);
  }
  return out;
}

std::optional<std::vector<double>> GgufArray::numbers() const {
  const uint64_t size = scalar_bytes(element_);
  if (size == 0 || element_ == GgufType::boolean) return std::nullopt;
  std::vector<double> out;
  out.reserve(count_);
  for (uint64_t i = 0; i < count_; ++i)
    out.push_back(*as_number(load_scalar(element_, bytes_.data() + i * size)));
  return out;
}

std::optional<std::vector<std::string_view>> GgufArray::strings() const {
  if (element_ != GgufType::string) return std::nullopt;
  std::vector<std::string_view> out;
  out.reserve(count_);
  Cursor in(bytes_);
  for (uint64_t i = 0; i < count_; ++i) out.push_back(*in.string("array"));
  return out;
}

std::optional<std::vector<GgufArray>> GgufArray::arrays() const {
  if (element_ != GgufType::array) return std::nullopt;
  std::vector<GgufArray> out;
  out.reserve(count_);
  Cursor in(bytes_);
  for (uint64_t i = 0; i < count_; ++i) out.push_back(*read_array(in, "array", 0));
  return out;
}

class GgufParser {
 public:
  explicit GgufParser(std::span<const std::byte> bytes) : in_(bytes) { out_.bytes_ = bytes; }

  Result<GgufFile> parse() {
    HR_RETURN_IF_ERROR(header());
    HR_RETURN_IF_ERROR(metadata());
    HR_RETURN_IF_ERROR(alignment());
    HR_RETURN_IF_ERROR(tensor_infos());
    HR_RETURN_IF_ERROR(tensor_names());
    HR_RETURN_IF_ERROR(tensor_data());
    return std::move(out_);
  }

 private:
  Status header() {
    HR_ASSIGN_OR_RETURN(std::span<const std::byte> magic, in_.take(4, "magic"));
    if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
      return make_status(Code::malformed,
                         "not a GGUF file: it starts with bytes {:02x} {:02x} {:02x} {:02x}, not 'GGUF'",
                         int(magic[0]), int(magic[1]), int(magic[2]), int(magic[3]));
    }
    HR_ASSIGN_OR_RETURN(out_.version_, in_.scalar<uint32_t>("version"));
    if (out_.version_ != 2 && out_.version_ != 3) {
      const uint32_t swapped = __builtin_bswap32(out_.version_);
      if (swapped >= 1 && swapped <= 3) {
        return make_status(Code::unsupported, "big-endian GGUF (version {}); convert it to little-endian",
                           swapped);
      }
      return make_status(Code::unsupported, "GGUF version {}; Headrace reads 2 and 3", out_.version_);
    }
    HR_ASSIGN_OR_RETURN(num_tensors_, in_.scalar<uint64_t>("tensor count"));
    HR_ASSIGN_OR_RETURN(num_entries_, in_.scalar<uint64_t>("metadata count"));
    // The least that one of each takes: key length, type and value; name length, rank, type and offset.
    HR_RETURN_IF_ERROR(plausible(num_entries_, 8 + 4 + 1, "metadata entries"));
    HR_RETURN_IF_ERROR(plausible(num_tensors_, 8 + 4 + 4 + 8, "tensors"));
    return Status();
  }

  Status plausible(uint64_t count, uint64_t least_bytes, std::string_view what) const {
    if (count <= in_.remaining() / least_bytes) return Status();
    return make_status(Code::malformed, "the header announces {} {}, but only {} bytes follow", count, what,
                       in_.remaining());
  }

  Result<std::string_view> name(std::string_view what) {
    HR_ASSIGN_OR_RETURN(const std::string_view text, in_.string(what));
    if (text.size() > kMaxNameBytes) {
      return error(Code::malformed, "{} of {} bytes before byte {}; GGUF allows {}", what, text.size(),
                   in_.position(), kMaxNameBytes);
    }
    return text;
  }

  Status metadata() {
    for (uint64_t i = 0; i < num_entries_; ++i) {
      HR_ASSIGN_OR_RETURN(const std::string_view key, name("metadata key"));
      const std::string what = fmt::format("metadata '{}'", shown_name(key));
      HR_ASSIGN_OR_RETURN(const GgufType type, value_type(in_, what));
      if (type == GgufType::string) {
        HR_ASSIGN_OR_RETURN(const std::string_view text, in_.string(what));
        out_.metadata_.push_back({key, type, text});
      } else if (type == GgufType::array) {
        HR_ASSIGN_OR_RETURN(const GgufArray array, read_array(in_, what, 0));
        out_.metadata_.push_back({key, type, array});
      } else {
        HR_ASSIGN_OR_RETURN(std::span<const std::byte> bytes, in_.take(scalar_bytes(type), what));
        if (type == GgufType::boolean && bytes[0] > std::byte{1}) {
          return make_status(Code::malformed, "{}: a bool has the value {}", what, int(bytes[0]));
        }
        out_.metadata_.push_back({key, type, load_scalar(type, bytes.data())});
      }
    }
    // Sorting, not hashing: names come from outside, and a hash with a known function can be made to collide.
    out_.by_key_.resize(out_.metadata_.size());
    std::iota(out_.by_key_.begin(), out_.by_key_.end(), 0u);
    const auto key_of = [this](uint32_t index) { return out_.metadata_[index].key; };
    std::ranges::sort(out_.by_key_, {}, key_of);
    const auto twice = std::ranges::adjacent_find(out_.by_key_, {}, key_of);
    if (twice == out_.by_key_.end()) return Status();
    return make_status(Code::malformed, "metadata '{}' appears twice", shown_name(key_of(*twice)));
  }

  Status alignment() {
    const GgufEntry* entry = out_.find("general.alignment");
    if (entry == nullptr) return Status();
    if (entry->type != GgufType::u32) {
      return make_status(Code::malformed, "general.alignment is a {}; want a u32",
                         gguf_type_name(entry->type));
    }
    out_.alignment_ = std::get<uint64_t>(entry->value);
    if (out_.alignment_ == 0 || out_.alignment_ % 8 != 0) {
      return make_status(Code::malformed, "general.alignment is {}; want a multiple of 8 above 0",
                         out_.alignment_);
    }
    return Status();
  }

  Status tensor_infos() {
    for (uint64_t i = 0; i < num_tensors_; ++i) {
      HR_ASSIGN_OR_RETURN(const std::string_view text, name("tensor name"));
      GgufTensor tensor{
          .name = text, .format = Format::f32, .rank = 0, .dims = {1, 1, 1, 1}, .offset = 0, .bytes = 0};
      if (Status status = tensor_info(tensor); !status.ok()) {
        return status.with_context(fmt::format("tensor '{}'", shown_name(text)));
      }
      out_.tensors_.push_back(tensor);
    }
    return Status();
  }

  // Leaves tensor.offset relative to the data section, which starts after the last of these.
  Status tensor_info(GgufTensor& tensor) {
    HR_ASSIGN_OR_RETURN(tensor.rank, in_.scalar<uint32_t>("dimension count"));
    if (tensor.rank > kMaxDims) {
      return make_status(Code::malformed, "{} dimensions; GGUF allows {}", tensor.rank, kMaxDims);
    }
    // Elements fit an int64, so that signed arithmetic on shapes is safe everywhere.
    int64_t elements = 1;
    for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
      HR_ASSIGN_OR_RETURN(const uint64_t dim, in_.scalar<uint64_t>("dimension"));
      if (dim == 0 || dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
          __builtin_mul_overflow(elements, static_cast<int64_t>(dim), &elements)) {
        return make_status(Code::malformed,
                           "dimension {} is {}; want at least 1, and fewer than 2^63 elements in all", axis,
                           dim);
      }
      tensor.dims[axis] = dim;
    }
    HR_ASSIGN_OR_RETURN(const uint32_t type, in_.scalar<uint32_t>("tensor type"));
    const std::optional<Format> format = format_from_gguf(type);
    if (!format) {
      return make_status(Code::unsupported, "type {}; Headrace reads {}", tensor_type_name(type),
                         readable_formats());
    }
    tensor.format = *format;
    if (tensor.dims[0] % static_cast<uint64_t>(format_info(*format).block_elements) != 0) {
      return make_status(Code::malformed, "rows of {} elements are not whole {} blocks of {}", tensor.dims[0],
                         format_info(*format).name, format_info(*format).block_elements);
    }
    HR_ASSIGN_OR_RETURN(tensor.bytes, format_bytes(*format, static_cast<uint64_t>(elements)));
    HR_ASSIGN_OR_RETURN(tensor.offset, in_.scalar<uint64_t>("tensor offset"));
    if (tensor.offset % out_.alignment_ != 0) {
      return make_status(Code::malformed, "offset {} is not a multiple of the alignment {}", tensor.offset,
                         out_.alignment_);
    }
    return Status();
  }

  Status tensor_names() const {
    std::vector<std::string_view> names;
    names.reserve(out_.tensors_.size());
    for (const GgufTensor& tensor : out_.tensors_) names.push_back(tensor.name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice == names.end()) return Status();
    return make_status(Code::malformed, "tensor '{}' appears twice", shown_name(*twice));
  }

  // Every tensor lies inside the file, and no two share a byte.
  Status tensor_data() {
    if (out_.tensors_.empty()) return Status();
    const uint64_t size = out_.bytes_.size();
    const uint64_t past = in_.position() % out_.alignment_;
    const uint64_t start = in_.position() + (past == 0 ? 0 : out_.alignment_ - past);
    for (GgufTensor& tensor : out_.tensors_) {
      const uint64_t room = start > size || tensor.offset > size - start ? 0 : size - start - tensor.offset;
      if (tensor.bytes > room) {
        return make_status(
            Code::malformed,
            "tensor '{}': want {} bytes at offset {} of the data, the file has {} there; it is cut "
            "short or damaged",
            shown_name(tensor.name), tensor.bytes, tensor.offset, room);
      }
      tensor.offset += start;
    }
    std::vector<const GgufTensor*> sorted;
    sorted.reserve(out_.tensors_.size());
    for (const GgufTensor& tensor : out_.tensors_) sorted.push_back(&tensor);
    std::ranges::sort(sorted, {}, [](const GgufTensor* tensor) { return tensor->offset; });
    for (size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i - 1]->offset + sorted[i - 1]->bytes > sorted[i]->offset) {
        return make_status(Code::malformed, "tensors '{}' and '{}' overlap", shown_name(sorted[i - 1]->name),
                           shown_name(sorted[i]->name));
      }
    }
    return Status();
  }

  Cursor in_;
  GgufFile out_;
  uint64_t num_tensors_ = 0;
  uint64_t num_entries_ = 0;
};

Result<GgufFile> GgufFile::open(const std::string& path) {
  HR_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  Result<GgufFile> parsed = parse(file.bytes());
  if (!parsed) return tl::unexpected<Status>(parsed.error().with_context(path));
  parsed->file_ = std::move(file);
  return parsed;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes) {
  return GgufParser(bytes).parse();
}

const GgufEntry* GgufFile::find(std::string_view key) const {
  const auto key_of = [this](uint32_t index) { return metadata_[index].key; };
  const auto at = std::ranges::lower_bound(by_key_, key, {}, key_of);
  return at == by_key_.end() || key_of(*at) != key ? nullptr : &metadata_[*at];
}

}  // namespace headrace::io
