#include "onnx/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/shapes.h"

namespace headrace::onnx {

#define HR_LOWERINGS(family) std::span<const LowerRow> lower_##family();
#include "onnx/lower.def"
#undef HR_LOWERINGS

namespace {

std::vector<LowerRow> list_lowerings() {
  std::vector<LowerRow> rows;
  const auto add = [&](std::span<const LowerRow> family) { rows.insert(rows.end(), family.begin(), family.end()); };
#define HR_LOWERINGS(family) add(lower_##family());
#include "onnx/lower.def"
#undef HR_LOWERINGS
  std::ranges::sort(rows, {}, &LowerRow::name);
  return rows;
}

}  // namespace

const LowerRow* find_lowering(std::string_view name) {
  static const std::vector<LowerRow> rows = list_lowerings();
  const auto found = std::ranges::lower_bound(rows, name, {}, &LowerRow::name);
  return found == rows.end() || found->name != name ? nullptr : &*found;
}

Dims static_dims(const ValueFact& fact) {
  Dims dims;
  for (const Type::Dim& dim : *fact.type.shape) dims.push_back(dim.value);
  return dims;
}
ValueType value_type(const ValueFact& fact) { return value_type(fact.type.dtype, static_dims(fact)); }
ValueType value_type(DType dtype, const Dims& dims) { return ValueType::tensor(dtype, ops::shape_of(dims)); }

bool goes_into(const Dims& from, const Dims& to) {
  const Result<Dims> both = broadcast(from, to);
  return both && *both == to;
}

LowerContext::LowerContext(GraphBuilder& builder, const Node& node, int64_t opset, std::string name, std::span<const ValueFact> inputs,
                           std::span<const ValueFact> outputs, std::function<ValueId(int)> input)
    : NodeReader(node, opset),
      builder_(builder),
      name_(std::move(name)),
      inputs_(inputs),
      outputs_(outputs),
      input_(std::move(input)),
      made_(outputs.size(), kNone) {}

bool LowerContext::decline(std::string reason) {
  declined_ = std::move(reason);
  return false;
}

std::string LowerContext::why_declined() const {
  if (!declined_.empty()) return declined_;
  std::vector<std::string> types;
  for (const ValueFact& input : inputs_) types.push_back(input.left_out ? "-" : describe(input.type));
  return fmt::format("no lowering for these types and attributes: {}", fmt::join(types, ", "));
}

bool LowerContext::wants_output(int index) const { return index < num_outputs() && !outputs_[static_cast<size_t>(index)].left_out; }
Dims LowerContext::dims(int index) const { return static_dims(inputs_[static_cast<size_t>(index)]); }
Dims LowerContext::output_dims(int index) const { return static_dims(outputs_[static_cast<size_t>(index)]); }

const Tensor* LowerContext::constant(int index) const {
  if (!has_input(index)) return nullptr;
  const auto& constant = inputs_[static_cast<size_t>(index)].constant;
  return constant ? &*constant : nullptr;
}

std::optional<float> LowerContext::scalar(int index) const {
  const Tensor* tensor = constant(index);
  if (tensor == nullptr || tensor->elements() != 1) return std::nullopt;
  std::optional<float> value;
  dispatch<float, double>(tensor->dtype(), [&]<class T>() { value = static_cast<float>(*tensor->data<T>()); });
  return value;
}

std::optional<std::vector<int64_t>> LowerContext::integers(int index) const {
  const Tensor* tensor = constant(index);
  if (tensor == nullptr || tensor->rank() > 1) return std::nullopt;
  return integers_of(*tensor);
}

bool LowerContext::all_f32_but(int input) const {
  const auto f32 = [](const ValueFact& fact) { return fact.left_out || fact.type.dtype == DType::f32; };
  for (int i = 0; i < num_inputs(); ++i) {
    if (i != input && !f32(inputs_[static_cast<size_t>(i)])) return false;
  }
  return std::ranges::all_of(outputs_, f32);
}

Dims LowerContext::dims_of(ValueId value) const {
  return value == kNone ? Dims() : *ops::constant_dims(builder_.graph.values[static_cast<size_t>(value)].type.shape);
}

ValueId LowerContext::reshape(ValueId value, Dims dims) {
  if (value == kNone || dims_of(value) == dims) return value;
  const headrace::Value& known = builder_.graph.values[static_cast<size_t>(value)];
  if (known.role == ValueRole::constant) {
    return builder_.graph.add_constant_bytes(known.name, known.type.dtype, ops::shape_of(dims), known.bytes);
  }
  return emit(ops::reshape, ops::ReshapeAttrs{std::move(dims)}, {value});
}

ValueId LowerContext::transpose(ValueId value, std::vector<int32_t> perm) {
  if (std::ranges::is_sorted(perm)) return value;
  return emit(ops::transpose, ops::TransposeAttrs{std::move(perm)}, {value});
}

ValueId LowerContext::to_channels_last(ValueId value) {
  std::vector<int32_t> perm = {0};
  const auto rank = static_cast<int32_t>(dims_of(value).size());
  for (int32_t axis = 2; axis < rank; ++axis) perm.push_back(axis);
  perm.push_back(1);
  return value == kNone ? kNone : reorder(value, std::move(perm));
}

ValueId LowerContext::reorder(ValueId value, std::vector<int32_t> perm) {
  const ValueId moved = transpose(value, std::move(perm));
  if (moved == value || moved == kNone) return moved;
  const NodeId made = builder_.graph.values[static_cast<size_t>(moved)].producer;
  builder_.graph.nodes[static_cast<size_t>(made)].origins.clear();
  return moved;
}

ValueId LowerContext::to_channels_first(ValueId value) {
  const auto rank = static_cast<int32_t>(dims_of(value).size());
  std::vector<int32_t> perm = {0, rank - 1};
  for (int32_t axis = 1; axis < rank - 1; ++axis) perm.push_back(axis);
  return value == kNone ? kNone : reorder(value, std::move(perm));
}

ValueId LowerContext::constant_f32(Dims dims, const std::vector<double>& values) {
  return builder_.graph.add_constant(name_ + ".constant", DType::f32, std::move(dims), values);
}

}  // namespace headrace::onnx
