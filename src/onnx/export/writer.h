#pragma once
// What the writers of single ops share: the model that grows, and the spellings of the graph's values. See onnx/export.h.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "onnx/export.h"
#include "onnx/tensor.h"
#include "ops/epilogue.h"

namespace headrace::onnx {

// How a spelling orders the axes of a value: its axis i is axis order[i] of the value.
using Order = std::vector<int32_t>;
Order plain_order(size_t rank);
Order channels_first(size_t rank);  // of [N, ..., C]: [N, C, ...]
// `dims` in that order; element counts and other lists that go with axes too.
Dims ordered(const Dims& dims, const Order& order);
// The axes longer than 1, in order: two spellings with the same ones hold the same bytes.
Order moved_axes(const Dims& dims, const Order& order);
// The place of `axis` in `order`.
int64_t axis_in(const Order& order, int64_t axis);

// A value of the model that is written. It has a name in the end.
enum class Wire : int32_t { none = -1 };

using Attributes = std::map<std::string, Attribute>;
Attribute attribute(int64_t value);
Attribute attribute(float value);
Attribute attribute(std::string value);
Attribute attribute(std::vector<int64_t> values);

class ModelWriter {
 public:
  ModelWriter(const headrace::Graph& graph, const ExportOptions& options);

  Result<Model> write();

  const headrace::Graph& graph() const { return graph_; }
  int64_t opset() const { return options_.opset; }
  Dims dims(ValueId value) const;

  Wire constant(Tensor tensor, std::string name);
  // A node of one output.
  Wire add(std::string op, std::vector<Wire> inputs, Attributes attributes, const std::string& name);
  // A node with outputs where `outputs` says so; none elsewhere.
  std::vector<Wire> add(std::string op, std::vector<Wire> inputs, Attributes attributes, const std::vector<bool>& outputs,
                        const std::string& name);
  // The elements of `wire`, of dims `from`, under other dims.
  Wire reshape(Wire wire, const Dims& from, const Dims& to, const std::string& name);

  // The value in that order of axes; written if it is missing.
  Wire spell(ValueId value, const Order& order);
  // The same for an operand that is broadcast to as many axes as `order` has.
  Wire spell_aligned(ValueId value, const Order& order);
  // `wire` is the value in that order of axes.
  void define(ValueId value, const Order& order, Wire wire);
  // `value` is axis-by-axis axis perm[i] of `from`: no node.
  void alias(ValueId value, ValueId from, const Order& perm);
  // The orders in which a value has been written already, the first of them first. None for constants: they come in any.
  std::vector<Order> orders(ValueId value) const;
  // The order of `rank` axes in which these operands, broadcast, need the fewest elements to be moved.
  Order best_order(std::span<const ValueId> operands, size_t rank) const;

 private:
  struct WireInfo {
    std::string name;               // fixed where `named`; otherwise what it would like to be called
    bool named = false;
    std::optional<Tensor> constant;
  };
  struct Step {
    std::string name, op;
    std::vector<Wire> inputs, outputs;
    Attributes attributes;
  };
  // Values that are transposes of one another. Orders are of the first one's axes.
  struct Array {
    Dims dims;
    std::vector<std::pair<Order, Wire>> spellings;
    const headrace::Value* constant = nullptr;
  };
  struct Place {
    int array = -1;
    Order order;
  };

  Wire new_wire(std::string name);
  WireInfo& info(Wire wire) { return wires_[static_cast<size_t>(wire)]; }
  const Place& place(ValueId value) const { return places_[static_cast<size_t>(value)]; }
  void new_array(ValueId value);
  // Elements that spell() would move.
  int64_t cost(ValueId value, const Order& order) const;
  int64_t aligned_cost(ValueId value, const Order& order) const;
  Status write_inputs(Model& model);
  Status write_nodes();
  void write_outputs(Model& model);
  void drop_unread_reshapes();
  void name_wires(Model& model);

  const headrace::Graph& graph_;
  const ExportOptions& options_;
  std::vector<WireInfo> wires_;
  std::vector<Step> steps_;
  std::vector<Array> arrays_;
  std::vector<Place> places_;  // by value
  std::map<std::pair<Wire, Dims>, Wire> reshaped_;
  std::map<Wire, std::pair<Wire, Dims>> origins_;  // of reshaped wires: what was reshaped, and its dims
};

// One node while it is written.
class NodeWriter {
 public:
  NodeWriter(ModelWriter& model, const headrace::Node& node) : model_(model), node_(node) {}

  ModelWriter& model() { return model_; }
  const headrace::Node& node() const { return node_; }
  int64_t opset() const { return model_.opset(); }
  template <class T>
  const T& attrs() const {
    return node_.attrs.as<T>();
  }
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  bool has_input(int index) const { return index < num_inputs() && value(index) != kNone; }
  ValueId value(int index) const { return node_.inputs[static_cast<size_t>(index)]; }
  ValueId output_value(int index) const { return node_.outputs[static_cast<size_t>(index)]; }
  Dims dims(int index) const { return model_.dims(value(index)); }
  Dims output_dims(int index = 0) const { return model_.dims(output_value(index)); }
  DType dtype(int index) const { return model_.graph().values[static_cast<size_t>(value(index))].type.dtype; }

  // For an output that comes in any order of its axes.
  Order best_order() const { return model_.best_order(node_.inputs, output_dims().size()); }
  Wire input(int index) { return model_.spell(value(index), plain_order(dims(index).size())); }
  Wire input(int index, const Order& order) { return model_.spell(value(index), order); }
  Wire add(std::string op, std::vector<Wire> inputs, Attributes attributes = {}) {
    return model_.add(std::move(op), std::move(inputs), std::move(attributes), node_.name);
  }
  Wire integers(const std::vector<int64_t>& values, std::string_view what) {
    return model_.constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values), node_.name + "." + std::string(what));
  }
  Wire scalar(float value, std::string_view what) { return model_.constant(Tensor::scalar(value), node_.name + "." + std::string(what)); }
  Wire reshape(Wire wire, const Dims& from, const Dims& to) { return model_.reshape(wire, from, to, node_.name); }
  Wire transpose(Wire wire, std::vector<int64_t> perm) { return add("Transpose", {wire}, {{"perm", attribute(std::move(perm))}}); }
  Wire expand(Wire wire, const Dims& from, const Dims& to);  // wire itself where nothing changes

  void set(int index, const Order& order, Wire wire) { model_.define(output_value(index), order, wire); }
  void set(int index, Wire wire) { set(index, plain_order(output_dims(index).size()), wire); }

 private:
  ModelWriter& model_;
  const headrace::Node& node_;
};

struct ExportRow {
  const Op* op;
  Status (*write)(NodeWriter& node);
};

// What several families write.
Wire write_unary(NodeWriter& node, const ops::UnaryAttrs& attrs, Wire x);
// The sum with the residual, and the activation, of a product that has its bias. The epilogue's inputs stand after `first` others.
Wire write_epilogue(NodeWriter& node, const ops::Epilogue& epilogue, int first, const Order& order, Wire product);

}  // namespace headrace::onnx
