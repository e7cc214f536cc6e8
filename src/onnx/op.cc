#include "onnx/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "onnx/tensor_proto.h"

namespace headrace::onnx {

#define HR_OPS(family) std::span<const OpRow> ops_##family();
#include "onnx/ops.def"
#undef HR_OPS

namespace {

std::vector<const OpRow*> list_ops() {
  std::vector<const OpRow*> rows;
  const auto add = [&](std::span<const OpRow> family) {
    for (const OpRow& row : family) rows.push_back(&row);
  };
#define HR_OPS(family) add(ops_##family());
#include "onnx/ops.def"
#undef HR_OPS
  std::ranges::sort(rows, [](const OpRow* a, const OpRow* b) { return std::pair(a->name, a->since) < std::pair(b->name, b->since); });
  return rows;
}

const char* kind_name(Attribute::Kind kind) {
  constexpr const char* names[] = {"a number", "an integer", "a text", "a tensor", "a graph", "a type", "numbers", "integers", "texts", "tensors",
                                   "graphs"};
  return names[static_cast<int>(kind)];
}

Result<const Attribute*> find_attribute(const NodeReader& context, std::string_view name, Attribute::Kind kind) {
  const Attribute* found = context.attribute(name);
  if (found != nullptr && found->kind != kind) {
    return error(Code::malformed, "attribute {}: want {}, got {}", name, kind_name(kind), kind_name(found->kind));
  }
  return found;
}

}  // namespace

std::span<const OpRow* const> all_ops() {
  static const std::vector<const OpRow*> rows = list_ops();
  return rows;
}

const OpRow* find_op(std::string_view name, int64_t opset) {
  const OpRow* best = nullptr;
  for (const OpRow* row : std::ranges::equal_range(all_ops(), name, {}, &OpRow::name)) {
    if (row->since <= opset) best = row;  // rising in opset
  }
  return best;
}

Result<CalledOp> find_op(const Node& node, const std::map<std::string, int64_t>& opsets) {
  const auto imported = opsets.find(node.domain);
  const bool known = node.opset != 0 || imported != opsets.end();
  const int64_t opset = !known ? 0 : node.opset != 0 ? node.opset : imported->second;
  const OpRow* row = known && node.domain.empty() ? find_op(node.op, opset) : nullptr;
  if (row != nullptr) return CalledOp{row, opset};
  return error(Code::unsupported, "no operator {}{}{}{}", node.domain, node.domain.empty() ? "" : ".", node.op,
               known ? fmt::format(" in opset {}", opset) : ", whose domain the model does not import");
}

OpContext::OpContext(const Node& node, int64_t opset, std::span<const Value> inputs, GraphRunner& graphs)
    : NodeReader(node, opset), inputs_(inputs), graphs_(graphs), outputs_(node.outputs.size()) {}

const Value& OpContext::value(int index) const {
  static const Value none;
  return index < num_inputs() ? inputs_[static_cast<size_t>(index)] : none;
}

bool OpContext::has_input(int index) const { return index < num_inputs() && value(index).has_value(); }

bool NodeReader::wants_output(int index) const { return index < num_outputs() && !node_.outputs[static_cast<size_t>(index)].empty(); }

Result<const Tensor*> OpContext::input(int index) const {
  const Tensor* tensor = index < num_inputs() ? value(index).tensor() : nullptr;
  if (tensor == nullptr) return error(Code::malformed, "input {}: want a tensor, got {}", index, has_input(index) ? "another kind" : "none");
  return tensor;
}

Result<std::vector<int64_t>> OpContext::integers(int index) const {
  HR_ASSIGN_OR_RETURN(const Tensor* tensor, input(index));
  if (tensor->rank() > 1) return error(Code::malformed, "input {}: want a list of integers, got a tensor of rank {}", index, tensor->rank());
  std::optional<std::vector<int64_t>> values = integers_of(*tensor);
  if (!values) return error(Code::malformed, "input {}: want i64 or i32, got {}", index, dtype_name(tensor->dtype()));
  return *std::move(values);
}

const Attribute* NodeReader::attribute(std::string_view name) const {
  const auto found = node_.attributes.find(std::string(name));
  return found == node_.attributes.end() ? nullptr : &found->second;
}

Result<int64_t> NodeReader::integer(std::string_view name, int64_t otherwise) const {
  HR_ASSIGN_OR_RETURN(const Attribute* found, find_attribute(*this, name, Attribute::Kind::integer));
  return found == nullptr ? otherwise : found->integer;
}

Result<float> NodeReader::number(std::string_view name, float otherwise) const {
  HR_ASSIGN_OR_RETURN(const Attribute* found, find_attribute(*this, name, Attribute::Kind::number));
  return found == nullptr ? otherwise : found->number;
}

Result<std::string> NodeReader::text(std::string_view name, std::string_view otherwise) const {
  HR_ASSIGN_OR_RETURN(const Attribute* found, find_attribute(*this, name, Attribute::Kind::text));
  return found == nullptr ? std::string(otherwise) : found->text;
}

Result<std::vector<int64_t>> NodeReader::integers(std::string_view name, std::vector<int64_t> otherwise) const {
  HR_ASSIGN_OR_RETURN(const Attribute* found, find_attribute(*this, name, Attribute::Kind::integers));
  return found == nullptr ? otherwise : found->integers;
}

Result<std::vector<float>> NodeReader::numbers(std::string_view name, std::vector<float> otherwise) const {
  HR_ASSIGN_OR_RETURN(const Attribute* found, find_attribute(*this, name, Attribute::Kind::numbers));
  return found == nullptr ? otherwise : found->numbers;
}

Result<std::vector<std::string>> NodeReader::texts(std::string_view name, std::vector<std::string> otherwise) const {
  HR_ASSIGN_OR_RETURN(const Attribute* found, find_attribute(*this, name, Attribute::Kind::texts));
  return found == nullptr ? otherwise : found->texts;
}

Result<DType> NodeReader::dtype_attribute(std::string_view name, DType otherwise) const {
  HR_ASSIGN_OR_RETURN(const int64_t number, integer(name, 0));
  if (number == 0) return otherwise;
  return read_dtype(number);
}

Result<const Graph*> NodeReader::graph(std::string_view name) const {
  const Attribute* found = attribute(name);
  if (found == nullptr || found->graphs.size() != 1) return error(Code::malformed, "attribute {}: want a graph", name);
  return found->graphs.front().get();
}

Result<Tensor*> OpContext::make(int index, DType dtype, Dims dims) {
  HR_ASSIGN_OR_RETURN(const int64_t count, count_elements(dims));
  // A string of its own is what an element takes at least.
  HR_RETURN_IF_ERROR(graphs_.charge(static_cast<uint64_t>(count) * (dtype == DType::string ? sizeof(std::string) : dtype_bytes(dtype))));
  if (index >= num_outputs()) return error(Code::malformed, "the operator has an output {}, the node has {}", index, num_outputs());
  Value& output = outputs_[static_cast<size_t>(index)];
  output = Tensor(dtype, std::move(dims));
  return std::get_if<Tensor>(&output.what);
}

void OpContext::set(int index, Value value) {
  if (index < num_outputs()) outputs_[static_cast<size_t>(index)] = std::move(value);
}

std::optional<std::vector<int64_t>> integers_of(const Tensor& tensor) {
  std::vector<int64_t> values;
  const bool known = dispatch<int64_t, int32_t>(tensor.dtype(), [&]<class T>() {
    for (const T value : tensor.values<T>()) values.push_back(value);
  });
  return known ? std::optional(std::move(values)) : std::nullopt;
}

Result<bool> truth_of(const Tensor& tensor) {
  if (tensor.dtype() != DType::boolean || tensor.elements() != 1) {
    return error(Code::malformed, "a condition: want one bool, got {} of {}", tensor.elements(), dtype_name(tensor.dtype()));
  }
  return *tensor.data<bool>();
}

Result<int> normalize_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return error(Code::malformed, "axis: want {} to {}, got {}", -rank, rank - 1, axis);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<Dims> broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  Dims dims(std::max(a.size(), b.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return error(Code::malformed, "dims [{}] and [{}] do not go together", fmt::join(a, ", "), fmt::join(b, ", "));
    }
    dims[dims.size() - 1 - i] = x == 1 ? y : x;
  }
  return dims;
}

Dims contiguous_strides(std::span<const int64_t> dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Dims broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to) {
  CHECK(from.size() <= to.size());
  const Dims own = contiguous_strides(from);
  Dims strides(to.size(), 0);
  const size_t behind = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) strides[behind + i] = from[i] == 1 ? 0 : own[i];
  return strides;
}

std::string Node::describe(size_t index) const {
  return name.empty() ? fmt::format("node {} ({})", index, op) : fmt::format("node {} ({}, \"{}\")", index, op, name);
}

std::string describe(std::span<const Type::Dim> shape) {
  std::vector<std::string> dims;
  for (const Type::Dim& dim : shape) dims.push_back(dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : dim.symbol);
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string describe(const Type& type) {
  const auto element = [&] { return type.element == nullptr ? std::string("unknown") : describe(*type.element); };
  switch (type.kind) {
    case Type::Kind::unknown: return "unknown";
    case Type::Kind::sequence: return "sequence of " + element();
    case Type::Kind::optional: return "optional " + element();
    case Type::Kind::tensor: break;
  }
  return type.shape ? fmt::format("{} {}", dtype_name(type.dtype), describe(*type.shape)) : std::string(dtype_name(type.dtype));
}

}  // namespace headrace::onnx
