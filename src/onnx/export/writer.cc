#include "onnx/export/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "onnx/file.h"
#include "onnx/op.h"
#include "ops/shapes.h"

namespace headrace::onnx {

#define HR_EXPORTS(family) std::span<const ExportRow> export_##family();
#include "onnx/export/export.def"
#undef HR_EXPORTS

namespace {

const ExportRow* find_export(const Op* op) {
  static const std::map<const Op*, ExportRow> rows = [] {
    std::map<const Op*, ExportRow> all;
    const auto add = [&](std::span<const ExportRow> family) {
      for (const ExportRow& row : family) all.emplace(row.op, row);
    };
#define HR_EXPORTS(family) add(export_##family());
#include "onnx/export/export.def"
#undef HR_EXPORTS
    return all;
  }();
  const auto found = rows.find(op);
  return found == rows.end() ? nullptr : &found->second;
}

// The first IR whose release had the opset.
int64_t ir_of(int64_t opset) {
  if (opset <= 22) return 10;
  if (opset == 23) return 11;
  if (opset == 24) return 12;
  return opset <= 27 ? 13 : 14;
}

// Axis i of the result is axis inner[i] of what has axis k = axis outer[k] of the array.
Order compose(const Order& outer, const Order& inner) {
  Order both;
  for (const int32_t axis : inner) both.push_back(outer[static_cast<size_t>(axis)]);
  return both;
}

// `order`, of as many axes as the result has, for an operand with fewer: its axes are the last ones.
Order operand_order(const Order& order, size_t rank) {
  const auto before = static_cast<int32_t>(order.size() - rank);
  Order own;
  for (const int32_t axis : order) {
    if (axis >= before) own.push_back(axis - before);
  }
  return own;
}

Tensor transposed(const Tensor& from, const Order& order) {
  const Dims dims = ordered(from.dims(), order), strides = ordered(contiguous_strides(from.dims()), order);
  Tensor to(from.dtype(), dims);
  const size_t unit = dtype_bytes(from.dtype());
  Dims place(dims.size(), 0);
  int64_t at = 0;
  for (int64_t i = 0; i < to.elements(); ++i) {
    std::memcpy(to.raw() + static_cast<size_t>(i) * unit, from.raw() + static_cast<size_t>(at) * unit, unit);
    for (size_t axis = dims.size(); axis-- > 0;) {
      at += strides[axis];
      if (++place[axis] < dims[axis]) break;
      at -= strides[axis] * dims[axis];
      place[axis] = 0;
    }
  }
  return to;
}

ValueInfo declare(std::string name, const ValueType& type) {
  Type declared{.kind = Type::Kind::tensor, .dtype = type.dtype, .shape = std::vector<Type::Dim>()};
  for (const Dim& dim : type.shape) declared.shape->push_back({.value = dim.constant()});
  return {std::move(name), std::move(declared)};
}

// Names that are given once each: what is wished for, or that with a number behind it.
class Names {
 public:
  void take(const std::string& name) { taken_.emplace(name, 2); }
  std::string unique(const std::string& wish) {
    const auto [known, is_new] = taken_.emplace(wish.empty() ? "unnamed" : wish, 2);
    if (is_new) return known->first;
    std::string name;
    do name = fmt::format("{}.{}", known->first, known->second++);
    while (!taken_.emplace(name, 2).second);
    return name;
  }

 private:
  std::map<std::string, int> taken_;  // with the next number to try
};

}  // namespace

Order plain_order(size_t rank) {
  Order order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int32_t>(i);
  return order;
}

Order channels_first(size_t rank) {
  if (rank < 3) return plain_order(rank);
  Order order = {0, static_cast<int32_t>(rank) - 1};
  for (size_t axis = 1; axis + 1 < rank; ++axis) order.push_back(static_cast<int32_t>(axis));
  return order;
}

Dims ordered(const Dims& dims, const Order& order) {
  Dims result;
  for (const int32_t axis : order) result.push_back(dims[static_cast<size_t>(axis)]);
  return result;
}

Order moved_axes(const Dims& dims, const Order& order) {
  Order axes;
  std::ranges::copy_if(order, std::back_inserter(axes), [&](int32_t axis) { return dims[static_cast<size_t>(axis)] != 1; });
  return axes;
}

int64_t axis_in(const Order& order, int64_t axis) { return std::ranges::find(order, static_cast<int32_t>(axis)) - order.begin(); }

Attribute attribute(int64_t value) { return {.kind = Attribute::Kind::integer, .integer = value}; }
Attribute attribute(float value) { return {.kind = Attribute::Kind::number, .number = value}; }
Attribute attribute(std::string value) { return {.kind = Attribute::Kind::text, .text = std::move(value)}; }
Attribute attribute(std::vector<int64_t> values) { return {.kind = Attribute::Kind::integers, .integers = std::move(values)}; }

Wire NodeWriter::expand(Wire wire, const Dims& from, const Dims& to) {
  return from == to ? wire : add("Expand", {wire, integers(to, "dims")});
}

ModelWriter::ModelWriter(const headrace::Graph& graph, const ExportOptions& options)
    : graph_(graph), options_(options), places_(graph.values.size()) {}

Dims ModelWriter::dims(ValueId value) const { return *ops::constant_dims(graph_.values[static_cast<size_t>(value)].type.shape); }

Wire ModelWriter::new_wire(std::string name) {
  wires_.push_back({.name = std::move(name)});
  return static_cast<Wire>(wires_.size() - 1);
}

Wire ModelWriter::constant(Tensor tensor, std::string name) {
  const Wire wire = new_wire(std::move(name));
  info(wire).constant = std::move(tensor);
  return wire;
}

Wire ModelWriter::add(std::string op, std::vector<Wire> inputs, Attributes attributes, const std::string& name) {
  return add(std::move(op), std::move(inputs), std::move(attributes), {true}, name)[0];
}

std::vector<Wire> ModelWriter::add(std::string op, std::vector<Wire> inputs, Attributes attributes, const std::vector<bool>& outputs,
                                   const std::string& name) {
  std::vector<Wire> wires;
  for (const bool there : outputs) wires.push_back(there ? new_wire(name) : Wire::none);
  steps_.push_back({name, std::move(op), std::move(inputs), wires, std::move(attributes)});
  return wires;
}

Wire ModelWriter::reshape(Wire wire, const Dims& from, const Dims& to, const std::string& name) {
  if (from == to) return wire;
  if (const auto origin = origins_.find(wire); origin != origins_.end()) {
    return reshape(origin->second.first, origin->second.second, to, name);
  }
  const auto [known, is_new] = reshaped_.emplace(std::pair(wire, to), Wire::none);
  if (!is_new) return known->second;
  if (const std::optional<Tensor>& tensor = info(wire).constant) return known->second = constant(tensor->reshaped(to), info(wire).name);
  Attributes attributes;
  if (std::ranges::find(to, 0) != to.end()) attributes["allowzero"] = attribute(int64_t{1});
  const Wire target = constant(Tensor::of<int64_t>({static_cast<int64_t>(to.size())}, to), name + ".dims");
  known->second = add("Reshape", {wire, target}, std::move(attributes), name);
  origins_[known->second] = {wire, from};
  return known->second;
}

void ModelWriter::new_array(ValueId value) {
  const headrace::Value& of = graph_.values[static_cast<size_t>(value)];
  Array array{.dims = dims(value)};
  places_[static_cast<size_t>(value)] = {static_cast<int>(arrays_.size()), plain_order(array.dims.size())};
  if (of.role == ValueRole::constant) array.constant = &of;
  arrays_.push_back(std::move(array));
}

void ModelWriter::alias(ValueId value, ValueId from, const Order& perm) {
  places_[static_cast<size_t>(value)] = {place(from).array, compose(place(from).order, perm)};
}

void ModelWriter::define(ValueId value, const Order& order, Wire wire) {
  if (place(value).array < 0) new_array(value);
  if (info(wire).constant == std::nullopt && !info(wire).named) info(wire).name = graph_.values[static_cast<size_t>(value)].name;
  arrays_[static_cast<size_t>(place(value).array)].spellings.emplace_back(compose(place(value).order, order), wire);
}

std::vector<Order> ModelWriter::orders(ValueId value) const {
  const Array& array = arrays_[static_cast<size_t>(place(value).array)];
  std::vector<Order> all;
  if (array.constant != nullptr) return all;
  for (const auto& [spelling, wire] : array.spellings) {
    Order order;
    for (const int32_t axis : spelling) order.push_back(static_cast<int32_t>(axis_in(place(value).order, axis)));
    all.push_back(std::move(order));
  }
  return all;
}

int64_t ModelWriter::cost(ValueId value, const Order& order) const {
  const Array& array = arrays_[static_cast<size_t>(place(value).array)];
  if (array.constant != nullptr) return 0;
  const Order want = moved_axes(array.dims, compose(place(value).order, order));
  const auto same = [&](const auto& spelling) { return moved_axes(array.dims, spelling.first) == want; };
  return std::ranges::any_of(array.spellings, same) ? 0 : ops::elements_of(array.dims);
}

int64_t ModelWriter::aligned_cost(ValueId value, const Order& order) const {
  const Dims own = dims(value);
  return ops::elements_of(own) == 1 ? 0 : cost(value, operand_order(order, own.size()));
}

Order ModelWriter::best_order(std::span<const ValueId> operands, size_t rank) const {
  std::vector<Order> candidates;
  for (const ValueId value : operands) {
    if (dims(value).size() != rank) continue;
    for (Order& order : orders(value)) candidates.push_back(std::move(order));
  }
  candidates.push_back(plain_order(rank));
  const auto moved = [&](const Order& order) {
    int64_t sum = 0;
    for (const ValueId value : operands) sum += aligned_cost(value, order);
    return sum;
  };
  return *std::ranges::min_element(candidates, {}, moved);
}

Wire ModelWriter::spell(ValueId value, const Order& order) {
  CHECK(place(value).array >= 0);
  Array& array = arrays_[static_cast<size_t>(place(value).array)];
  const std::string& name = graph_.values[static_cast<size_t>(value)].name;
  const Order want = compose(place(value).order, order);
  for (const auto& [spelling, wire] : array.spellings) {
    if (spelling == want) return wire;
  }
  Wire made = Wire::none;
  if (array.constant != nullptr) {
    const Tensor tensor = Tensor::over(array.constant->type.dtype, array.dims, array.constant->bytes.hold());
    made = constant(std::ranges::is_sorted(want) ? tensor : transposed(tensor, want), array.constant->name);
  } else {
    CHECK(!array.spellings.empty());
    const auto near = std::ranges::find_if(
        array.spellings, [&](const auto& spelling) { return moved_axes(array.dims, spelling.first) == moved_axes(array.dims, want); });
    if (near != array.spellings.end()) {
      made = reshape(near->second, ordered(array.dims, near->first), ordered(array.dims, want), name);
    } else {
      const auto& [first, wire] = array.spellings.front();
      std::vector<int64_t> perm;
      for (const int32_t axis : want) perm.push_back(axis_in(first, axis));
      made = add("Transpose", {wire}, {{"perm", attribute(std::move(perm))}}, name);
    }
  }
  array.spellings.emplace_back(want, made);
  return made;
}

Wire ModelWriter::spell_aligned(ValueId value, const Order& order) {
  const Dims own = dims(value);
  if (own.size() == order.size()) return spell(value, order);
  if (ops::elements_of(own) == 1) return spell(value, plain_order(own.size()));
  const Order own_order = operand_order(order, own.size());
  const auto before = static_cast<int32_t>(order.size() - own.size());
  Dims target;
  for (const int32_t axis : order) {
    if (axis >= before) target.push_back(own[static_cast<size_t>(axis - before)]);
    else if (!target.empty()) target.push_back(1);
  }
  return reshape(spell(value, own_order), ordered(own, own_order), target, graph_.values[static_cast<size_t>(value)].name);
}

Status ModelWriter::write_inputs(Model& model) {
  for (size_t id = 0; id < graph_.values.size(); ++id) {
    const headrace::Value& value = graph_.values[id];
    if (value.role == ValueRole::weight || value.role == ValueRole::state) {
      return make_status(Code::unsupported, "value {}: {} has no place in an ONNX model", value.name,
                         value.role == ValueRole::weight ? "a weight of a checkpoint" : "a state that lives from step to step");
    }
    const bool fixed = std::ranges::all_of(value.type.shape, [](const Dim& dim) { return dim.is_constant(); });
    if (!fixed) {
      return make_status(Code::unsupported, "value {}: want constant dims, got {}", value.name,
                         value.type.shape.to_string(graph_.symbols.names()));
    }
    if (value.role == ValueRole::constant) new_array(static_cast<ValueId>(id));
    if (value.role != ValueRole::input) continue;
    const Wire wire = new_wire(value.name);
    info(wire).named = true;
    new_array(static_cast<ValueId>(id));
    define(static_cast<ValueId>(id), plain_order(static_cast<size_t>(value.type.shape.rank())), wire);
    model.graph.inputs.push_back(declare(value.name, value.type));
  }
  return {};
}

Status ModelWriter::write_nodes() {
  for (const headrace::Node& node : graph_.nodes) {
    if (node.dead) continue;
    const ExportRow* row = find_export(node.op);
    if (row == nullptr) return make_status(Code::unsupported, "{} ({}): no operators of ONNX say this op", node.name, node.op->name);
    NodeWriter writer(*this, node);
    if (const Status status = row->write(writer); !status.ok()) {
      return status.with_context(fmt::format("{} ({})", node.name, node.op->name));
    }
  }
  return {};
}

void ModelWriter::write_outputs(Model& model) {
  for (const GraphOutput& output : graph_.outputs) {
    const headrace::Value& value = graph_.values[static_cast<size_t>(output.value)];
    Wire wire = spell(output.value, plain_order(dims(output.value).size()));
    if (info(wire).named || info(wire).constant) wire = add("Identity", {wire}, {}, output.name);
    info(wire).name = output.name;
    info(wire).named = true;
    model.graph.outputs.push_back(declare(output.name, value.type));
  }
}

// Those whose result was only reshaped again.
void ModelWriter::drop_unread_reshapes() {
  std::vector<bool> read(wires_.size(), false);
  for (size_t i = 0; i < wires_.size(); ++i) read[i] = wires_[i].named;  // outputs of the model
  for (size_t i = steps_.size(); i-- > 0;) {
    Step& step = steps_[i];
    if (step.op == "Reshape" && !read[static_cast<size_t>(step.outputs[0])]) {
      step.op.clear();
      continue;
    }
    for (const Wire wire : step.inputs) {
      if (wire != Wire::none) read[static_cast<size_t>(wire)] = true;
    }
  }
  std::erase_if(steps_, [](const Step& step) { return step.op.empty(); });
}

void ModelWriter::name_wires(Model& model) {
  Names values, nodes;
  for (const WireInfo& wire : wires_) {
    if (wire.named) values.take(wire.name);
  }
  const auto name_of = [&](Wire wire) {
    if (wire == Wire::none) return std::string();
    WireInfo& named = info(wire);
    if (!named.named) named.name = values.unique(named.name);
    named.named = true;
    if (named.constant) model.graph.initializers.emplace(named.name, *named.constant);
    return named.name;
  };
  for (Step& step : steps_) {
    Node node{.name = nodes.unique(step.name), .op = std::move(step.op), .attributes = std::move(step.attributes)};
    while (!step.inputs.empty() && step.inputs.back() == Wire::none) step.inputs.pop_back();
    for (const Wire wire : step.inputs) node.inputs.push_back(name_of(wire));
    for (const Wire wire : step.outputs) node.outputs.push_back(name_of(wire));
    model.graph.nodes.push_back(std::move(node));
  }
}

Result<Model> ModelWriter::write() {
  Model model{.ir_version = ir_of(opset()), .producer = options_.producer, .opsets = {{"", opset()}}};
  model.graph.name = "headrace";
  HR_RETURN_IF_ERROR(write_inputs(model));
  HR_RETURN_IF_ERROR(write_nodes());
  write_outputs(model);
  drop_unread_reshapes();
  name_wires(model);
  HR_RETURN_IF_ERROR(check_model(model));
  return model;
}

Result<Model> to_onnx(const headrace::Graph& graph, const ExportOptions& options) {
  if (options.opset < kMinExportOpset || options.opset > kMaxOpset) {
    return error(Code::invalid_argument, "opset: want {} to {}, got {}", kMinExportOpset, kMaxOpset, options.opset);
  }
  return ModelWriter(graph, options).write();
}

}  // namespace headrace::onnx
