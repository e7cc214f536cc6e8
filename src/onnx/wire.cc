#include "onnx/wire.h"

#include "base/check.h"

namespace headrace::onnx {
namespace {

enum class Kind : uint8_t {
  leaf,  // a string, or a message that holds no others
  model, training, graph, node, attribute, tensor, sparse, value, type, wrapped, tensor_type, shape, function, annotation,
  device, sharding, sharded_dim,
};

struct Field {
  Kind in;
  uint32_t number;
  Kind holds;
};

// Field numbers of onnx-ml.proto: those that hold messages, and strings that repeat.
constexpr Field kFields[] = {
    {Kind::model, 7, Kind::graph},        {Kind::model, 8, Kind::leaf},          {Kind::model, 14, Kind::leaf},
    {Kind::model, 20, Kind::training},    {Kind::model, 25, Kind::function},     {Kind::model, 26, Kind::annotation},
    {Kind::training, 1, Kind::graph},     {Kind::training, 2, Kind::graph},      {Kind::training, 3, Kind::leaf},
    {Kind::training, 4, Kind::leaf},      {Kind::graph, 1, Kind::node},          {Kind::graph, 5, Kind::tensor},
    {Kind::graph, 15, Kind::sparse},      {Kind::graph, 11, Kind::value},        {Kind::graph, 12, Kind::value},
    {Kind::graph, 13, Kind::value},       {Kind::graph, 14, Kind::annotation},   {Kind::graph, 16, Kind::leaf},
    {Kind::node, 1, Kind::leaf},          {Kind::node, 2, Kind::leaf},           {Kind::node, 5, Kind::attribute},
    {Kind::node, 9, Kind::leaf},          {Kind::node, 10, Kind::device},        {Kind::attribute, 5, Kind::tensor},
    {Kind::attribute, 6, Kind::graph},    {Kind::attribute, 9, Kind::leaf},      {Kind::attribute, 10, Kind::tensor},
    {Kind::attribute, 11, Kind::graph},   {Kind::attribute, 14, Kind::type},     {Kind::attribute, 15, Kind::type},
    {Kind::attribute, 22, Kind::sparse},  {Kind::attribute, 23, Kind::sparse},   {Kind::tensor, 6, Kind::leaf},
    {Kind::tensor, 13, Kind::leaf},       {Kind::tensor, 16, Kind::leaf},        {Kind::sparse, 1, Kind::tensor},
    {Kind::sparse, 2, Kind::tensor},      {Kind::value, 2, Kind::type},          {Kind::value, 4, Kind::leaf},
    {Kind::type, 1, Kind::tensor_type},   {Kind::type, 8, Kind::tensor_type},    {Kind::type, 4, Kind::wrapped},
    {Kind::type, 5, Kind::wrapped},       {Kind::type, 9, Kind::wrapped},        {Kind::wrapped, 1, Kind::type},
    {Kind::wrapped, 2, Kind::type},       {Kind::tensor_type, 2, Kind::shape},   {Kind::shape, 1, Kind::leaf},
    {Kind::function, 4, Kind::leaf},      {Kind::function, 5, Kind::leaf},       {Kind::function, 6, Kind::leaf},
    {Kind::function, 7, Kind::node},      {Kind::function, 9, Kind::leaf},       {Kind::function, 11, Kind::attribute},
    {Kind::function, 12, Kind::value},    {Kind::function, 14, Kind::leaf},      {Kind::annotation, 2, Kind::leaf},
    {Kind::annotation, 3, Kind::leaf},    {Kind::device, 2, Kind::sharding},     {Kind::sharding, 3, Kind::leaf},
    {Kind::sharding, 4, Kind::sharded_dim}, {Kind::sharded_dim, 2, Kind::leaf},
};

// What field `number` of a message holds; null for what counts for nothing.
const Kind* find_field(Kind in, uint64_t number) {
  for (const Field& field : kFields) {
    if (field.in == in && field.number == number) return &field.holds;
  }
  return nullptr;
}

bool read_varint(std::span<const std::byte>& bytes, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = std::to_integer<uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// One field of a message.
struct Part {
  uint64_t number = 0;
  bool has_length = false;               // wire type 2: a string or a message
  std::span<const std::byte> tag, whole;  // the tag alone; all of it
  std::span<const std::byte> content;    // where it has a length
};

// Takes the first field off `bytes`; false where they are none.
bool take_field(std::span<const std::byte>& bytes, Part& part) {
  const std::span<const std::byte> start = bytes;
  uint64_t tag = 0, size = 0;
  if (!read_varint(bytes, tag)) return false;
  part.tag = start.first(start.size() - bytes.size());
  part.number = tag >> 3;
  part.has_length = (tag & 7) == 2;
  switch (tag & 7) {
    case 0: {
      uint64_t value = 0;
      if (!read_varint(bytes, value)) return false;
      break;
    }
    case 1: size = 8; break;
    case 5: size = 4; break;
    case 2:
      if (!read_varint(bytes, size)) return false;
      break;
    default: return false;  // groups, which ONNX has none of
  }
  if (size > bytes.size()) return false;
  part.content = bytes.first(size);
  bytes = bytes.subspan(size);
  part.whole = start.first(start.size() - bytes.size());
  return true;
}

class Walk {
 public:
  explicit Walk(int max_depth) : max_depth_(max_depth) {}

  Status message(Kind kind, std::span<const std::byte> bytes, int depth) {
    if (depth > max_depth_) return make_status(Code::resource_exhausted, "messages nested deeper than {}", max_depth_);
    Part part;
    while (!bytes.empty()) {
      if (!take_field(bytes, part)) return make_status(Code::malformed, "no protobuf message: cut short or damaged");
      const Kind* holds = part.has_length ? find_field(kind, part.number) : nullptr;
      if (holds == nullptr) continue;
      ++entries;
      if (*holds != Kind::leaf) HR_RETURN_IF_ERROR(message(*holds, part.content, depth + 1));
    }
    return {};
  }

  uint64_t entries = 0;

 private:
  const int max_depth_;
};

constexpr uint64_t kRawData = 9;  // of a TensorProto
using RawNumber = uint32_t;

// Writes a model without raw data, twice over: sizes of the messages first, since they stand before what they hold.
class Detach {
 public:
  uint64_t measure(Kind kind, std::span<const std::byte> bytes) {
    uint64_t size = 0;
    Part part;
    while (!bytes.empty()) {
      CHECK(take_field(bytes, part));
      if (is_raw_data(kind, part)) {
        size += part.tag.size() + 1 + sizeof(RawNumber);
      } else if (const Kind* holds = message_in(kind, part)) {
        const size_t at = sizes_.size();
        sizes_.push_back(0);
        const uint64_t content = measure(*holds, part.content);
        sizes_[at] = content;
        size += part.tag.size() + varint_bytes(content) + content;
      } else {
        size += part.whole.size();
      }
    }
    return size;
  }

  void write(Kind kind, std::span<const std::byte> bytes, DetachedModel& to) {
    Part part;
    while (!bytes.empty()) {
      CHECK(take_field(bytes, part));
      if (is_raw_data(kind, part)) {
        const auto number = static_cast<RawNumber>(to.raw_data.size());
        to.raw_data.push_back(part.content);
        append(part.tag, to.model);
        append_varint(sizeof number, to.model);
        to.model.append(reinterpret_cast<const char*>(&number), sizeof number);
      } else if (const Kind* holds = message_in(kind, part)) {
        append(part.tag, to.model);
        append_varint(sizes_[next_++], to.model);
        write(*holds, part.content, to);
      } else {
        append(part.whole, to.model);
      }
    }
  }

 private:
  static bool is_raw_data(Kind kind, const Part& part) { return kind == Kind::tensor && part.has_length && part.number == kRawData; }
  // What a field holds, where that is a message that may hold tensors.
  static const Kind* message_in(Kind kind, const Part& part) {
    const Kind* holds = part.has_length ? find_field(kind, part.number) : nullptr;
    return holds == nullptr || *holds == Kind::leaf ? nullptr : holds;
  }
  static uint64_t varint_bytes(uint64_t value) {
    uint64_t bytes = 1;
    while ((value >>= 7) != 0) ++bytes;
    return bytes;
  }
  static void append_varint(uint64_t value, std::string& to) {
    for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
    to += static_cast<char>(value);
  }
  static void append(std::span<const std::byte> bytes, std::string& to) {
    to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  std::vector<uint64_t> sizes_;  // of the messages, in the order in which they begin
  size_t next_ = 0;              // of sizes_, when writing
};

}  // namespace

Result<uint64_t> count_entries(std::span<const std::byte> model, int max_depth) {
  Walk walk(max_depth);
  HR_RETURN_IF_ERROR(walk.message(Kind::model, model, 1));
  return walk.entries;
}

DetachedModel detach_raw_data(std::span<const std::byte> model) {
  Detach detach;
  DetachedModel detached;
  detached.model.reserve(detach.measure(Kind::model, model));
  detach.write(Kind::model, model, detached);
  return detached;
}

}  // namespace headrace::onnx
