#include "graph/graph.h"

#include <algorithm>

#include "base/check.h"
#include "core/buffer.h"
#include "core/half.h"

namespace headrace {
namespace {

int64_t count_of(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

std::string type_text(const ValueType& type, std::span<const std::string> symbols) {
  switch (type.kind) {
    case ValueType::Kind::tensor:
      return fmt::format("{} {}", dtype_name(type.dtype), type.shape.to_string(symbols));
    case ValueType::Kind::weight:
      return fmt::format("{} {}", format_info(type.format).name, type.shape.to_string(symbols));
    case ValueType::Kind::kv:
      return fmt::format("kv {} heads={} head_dim={}", dtype_name(type.kv.dtype), type.kv.heads, type.kv.head_dim);
  }
  return "?";
}

// f(T()) with the C++ type of a number of one part; false for every other dtype.
template <class F>
bool with_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float()), true;
    case DType::f16: return f(f16()), true;
    case DType::bf16: return f(bf16()), true;
    case DType::f64: return f(double()), true;
    case DType::i8: return f(int8_t()), true;
    case DType::u8: return f(uint8_t()), true;
    case DType::i16: return f(int16_t()), true;
    case DType::u16: return f(uint16_t()), true;
    case DType::i32: return f(int32_t()), true;
    case DType::u32: return f(uint32_t()), true;
    case DType::i64: return f(int64_t()), true;
    case DType::u64: return f(uint64_t()), true;
    case DType::boolean: return f(bool()), true;
    default: return false;
  }
}

template <class T>
T from_double(double x) {
  if constexpr (std::is_same_v<T, f16>) return to_f16(static_cast<float>(x));
  else if constexpr (std::is_same_v<T, bf16>) return to_bf16(static_cast<float>(x));
  else return static_cast<T>(x);
}
template <class T>
double to_double(T x) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) return static_cast<double>(to_float(x));
  else return static_cast<double>(x);
}

}  // namespace

void Node::absorb(Node& replaced) {
  origins.insert(origins.end(), std::move_iterator(replaced.origins.begin()), std::move_iterator(replaced.origins.end()));
  replaced.origins.clear();
}

std::vector<double> constant_values(const Value& constant) {
  std::vector<double> values;
  with_number(constant.type.dtype, [&]<class T>(const T&) {
    for (const T x : constant.constant<T>()) values.push_back(to_double(x));
  });
  return values;
}

std::string WeightRecipe::describe() const {
  std::string text;
  for (const WeightPart& part : parts) {
    if (!text.empty()) text += " + ";
    text += part.source;
    if (part.begin == 0 && part.end < 0) continue;
    text += part.end < 0 ? fmt::format("[{}:]", part.begin) : fmt::format("[{}:{}]", part.begin, part.end);
  }
  return text;
}

ValueId Graph::add_input(std::string name, DType dtype, Shape shape) {
  values.push_back({std::move(name), ValueRole::input, ValueType::tensor(dtype, shape), kNone, {}, kNone, {}});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_weight(std::string name, Format format, Shape shape, WeightRecipe recipe) {
  values.push_back(
      {std::move(name), ValueRole::weight, ValueType::weight(format, shape), kNone, std::move(recipe), kNone, {}});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_state(std::string name, ValueType type, int32_t layer) {
  values.push_back({std::move(name), ValueRole::state, std::move(type), kNone, {}, layer, {}});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(std::string name, DType dtype, std::vector<int64_t> dims, const std::vector<double>& data) {
  CHECK(count_of(dims) == static_cast<int64_t>(data.size()));
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  const std::shared_ptr<std::byte[]> bytes = host_bytes(data.size() * dtype_bytes(dtype));
  const bool stored = with_number(dtype, [&]<class T>(const T&) {
    T* to = reinterpret_cast<T*>(bytes.get());
    for (size_t i = 0; i < data.size(); ++i) to[i] = from_double<T>(data[i]);
  });
  CHECK(stored);
  return add_constant_bytes(std::move(name), dtype, shape, bytes);
}

ValueId Graph::add_constant_bytes(std::string name, DType dtype, Shape shape, ConstantBytes bytes) {
  CHECK(bytes.has_value());
  values.push_back({std::move(name), ValueRole::constant, ValueType::tensor(dtype, shape), kNone, {}, kNone, std::move(bytes)});
  return static_cast<ValueId>(values.size() - 1);
}

Result<std::vector<ValueId>> Graph::add_node(const Op& op, Attrs attrs, std::vector<ValueId> inputs,
                                             std::string name) {
  return insert_node(static_cast<NodeId>(nodes.size()), op, std::move(attrs), std::move(inputs), std::move(name));
}

Result<std::vector<ValueId>> Graph::insert_node(NodeId at, const Op& op, Attrs attrs, std::vector<ValueId> inputs,
                                                std::string name) {
  CHECK(at >= 0 && at <= static_cast<NodeId>(nodes.size()));
  const size_t num_values = values.size();
  HR_ASSIGN_OR_RETURN(Node node, make_node(at, op, std::move(attrs), std::move(inputs), std::move(name)));
  node.origins = {node.name};
  if (at < static_cast<NodeId>(nodes.size())) {
    for (Value& value : std::span(values).first(num_values)) {
      if (value.producer >= at) ++value.producer;
    }
  }
  std::vector<ValueId> outputs_of_node = node.outputs;
  nodes.insert(nodes.begin() + at, std::move(node));
  return outputs_of_node;
}

Result<Node> Graph::make_node(NodeId id, const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name) {
  while (!inputs.empty() && inputs.back() == kNone) inputs.pop_back();
  for (const ValueId input : inputs) CHECK(input >= kNone && input < static_cast<ValueId>(values.size()));
  Node node{&op, std::move(attrs), std::move(inputs), {}, std::move(name), false, false, {}};
  auto types = op.infer(input_types(node), node.attrs);
  if (!types) return tl::unexpected<Status>(types.error().with_context(fmt::format("{} ({})", node.name, op.name)));
  for (size_t index = 0; index < types->size(); ++index) {
    std::string value_name = index == 0 ? node.name : fmt::format("{}.{}", node.name, index);
    values.push_back({std::move(value_name), ValueRole::computed, std::move((*types)[index]), id, {}, kNone, {}});
    node.outputs.push_back(static_cast<ValueId>(values.size() - 1));
  }
  return node;
}

ValueId Graph::find(std::string_view name) const {
  for (size_t id = 0; id < values.size(); ++id) {
    if (values[id].name == name) return static_cast<ValueId>(id);
  }
  return kNone;
}

void Graph::set_output(std::string name, ValueId value) {
  CHECK(value >= 0 && value < static_cast<ValueId>(values.size()));
  for (GraphOutput& output : outputs) {
    if (output.name == name) {
      output.value = value;
      return;
    }
  }
  outputs.push_back({std::move(name), value});
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& node : nodes) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  for (GraphOutput& output : outputs) {
    if (output.value == from) output.value = to;
  }
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> found(values.size());
  for (size_t id = 0; id < nodes.size(); ++id) {
    if (nodes[id].dead) continue;
    for (const ValueId input : nodes[id].inputs) {
      if (input == kNone) continue;
      // A node that reads a value twice is one user.
      std::vector<NodeId>& list = found[input];
      if (list.empty() || list.back() != static_cast<NodeId>(id)) list.push_back(static_cast<NodeId>(id));
    }
  }
  return found;
}

std::vector<ValueType> Graph::input_types(const Node& node) const {
  std::vector<ValueType> types;
  types.reserve(node.inputs.size());
  for (const ValueId input : node.inputs) types.push_back(input == kNone ? ValueType{} : values[input].type);
  return types;
}

std::vector<ValueType> Graph::output_types(const Node& node) const {
  std::vector<ValueType> types;
  types.reserve(node.outputs.size());
  for (const ValueId output : node.outputs) types.push_back(values[output].type);
  return types;
}

void Graph::compact() {
  for (const Node& node : nodes) {
    if (!node.dead) continue;
    for (const ValueId output : node.outputs) values[output].producer = kNone;
  }
  std::erase_if(nodes, [](const Node& node) { return node.dead; });
  for (size_t id = 0; id < nodes.size(); ++id) {
    for (const ValueId output : nodes[id].outputs) values[output].producer = static_cast<NodeId>(id);
  }
}

// A computed value by number, every other by name.
std::string Graph::reference(ValueId id) const {
  if (id == kNone) return "-";
  if (values[id].role == ValueRole::computed) return fmt::format("%{}", id);
  return fmt::format("@{}", values[id].name);
}

std::string Graph::node_to_string(NodeId id) const {
  const Node& node = nodes[id];
  std::string text;
  for (const ValueId output : node.outputs) {
    text += fmt::format("{}%{} {}", text.empty() ? "" : ", ", output, type_text(values[output].type, symbols.names()));
  }
  if (!node.outputs.empty()) text += " = ";
  text += fmt::format("{}(", node.op->name);
  for (size_t index = 0; index < node.inputs.size(); ++index) {
    text += fmt::format("{}{}", index == 0 ? "" : ", ", reference(node.inputs[index]));
  }
  text += ")";
  if (const std::string attrs = node.attrs.describe(); !attrs.empty()) text += fmt::format(" {{{}}}", attrs);
  return text + fmt::format("  # {}", node.name);
}

std::string Graph::to_string() const {
  std::string text;
  for (size_t id = 0; id < nodes.size(); ++id) {
    if (!nodes[id].dead) text += node_to_string(static_cast<NodeId>(id)) + "\n";
  }
  for (const GraphOutput& output : outputs) {
    text += fmt::format("output {} = {}\n", output.name, reference(output.value));
  }
  return text;
}

}  // namespace headrace
