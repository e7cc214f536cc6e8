#include "onnx/wire.h"

namespace headrace::onnx {
namespace {

enum class Kind : uint8_t {
  leaf,  // a string, or a message that holds no others
  model, training, graph, node, attribute, tensor, sparse, value, type, wrapped, tensor_type, shape, function, annotation, device, sharding, sharded_dim,
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

class Walk {
 public:
  explicit Walk(int max_depth) : max_depth_(max_depth) {}

  Status message(Kind kind, std::span<const std::byte> bytes, int depth) {
    if (depth > max_depth_) return make_status(Code::resource_exhausted, "messages nested deeper than {}", max_depth_);
    while (!bytes.empty()) {
      uint64_t tag = 0, size = 0;
      if (!varint(bytes, tag)) return broken();
      switch (tag & 7) {
        case 0:
          if (!varint(bytes, size)) return broken();
          continue;
        case 1: size = 8; break;
        case 5: size = 4; break;
        case 2:
          if (!varint(bytes, size)) return broken();
          break;
        default: return broken();  // groups, which ONNX has none of
      }
      if (size > bytes.size()) return broken();
      if ((tag & 7) == 2) {
        if (const Kind* holds = find_field(kind, tag >> 3)) {
          ++entries;
          if (*holds != Kind::leaf) HR_RETURN_IF_ERROR(message(*holds, bytes.first(size), depth + 1));
        }
      }
      bytes = bytes.subspan(size);
    }
    return {};
  }

  uint64_t entries = 0;

 private:
  static bool varint(std::span<const std::byte>& bytes, uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      const auto byte = std::to_integer<uint64_t>(bytes.front());
      bytes = bytes.subspan(1);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  static Status broken() { return make_status(Code::malformed, "no protobuf message: cut short or damaged"); }

  const int max_depth_;
};

}  // namespace

Result<uint64_t> count_entries(std::span<const std::byte> model, int max_depth) {
  Walk walk(max_depth);
  HR_RETURN_IF_ERROR(walk.message(Kind::model, model, 1));
  return walk.entries;
}

}  // namespace headrace::onnx
