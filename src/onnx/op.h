#pragma once
// Operators on the host, by the letter of the ONNX operator document: the meaning of every node. Slow loops are allowed here, wrong ones
// are not; what is fast is the graph layer's business, which is measured against these.
//
// An operator is a row of a family's table: name, the opset from which its meaning holds, and a function. Of the rows of one name the one
// with the highest opset that the model's does not exceed is taken. Families are files in onnx/ops/, listed in onnx/ops.def.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "onnx/model.h"

namespace headrace::onnx {

// Runs graphs that an operator holds (If, Loop, Scan, SequenceMap), and counts what operators make.
class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  // `inputs` are bound to the graph's inputs in order; outer values are visible to it.
  virtual Result<std::vector<Value>> run(const Graph& graph, std::vector<Value> inputs) = 0;
  // Asked before a tensor is made. Errors: resource_exhausted.
  virtual Status charge(uint64_t bytes) = 0;
};

// One call of an operator. Errors that it returns need not name the node: the caller does.
class OpContext {
 public:
  OpContext(const Node& node, int64_t opset, std::span<const Value> inputs, GraphRunner& graphs);

  const Node& node() const { return node_; }
  int64_t opset() const { return opset_; }  // of the node's domain

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool has_input(int index) const;
  bool wants_output(int index) const;
  const Value& value(int index) const;  // an empty one where the node has no such input
  // A tensor input that must be there. Errors: malformed.
  Result<const Tensor*> input(int index) const;
  // One-dimensional (or scalar) integers of an i64 or i32 input. Errors: malformed.
  Result<std::vector<int64_t>> integers(int index) const;

  // Attributes, or what stands for one that is not there. Errors: malformed for one of another kind.
  Result<int64_t> integer(std::string_view name, int64_t otherwise) const;
  Result<float> number(std::string_view name, float otherwise) const;
  Result<std::string> text(std::string_view name, std::string_view otherwise) const;
  Result<std::vector<int64_t>> integers(std::string_view name, std::vector<int64_t> otherwise) const;
  Result<std::vector<float>> numbers(std::string_view name, std::vector<float> otherwise) const;
  Result<std::vector<std::string>> texts(std::string_view name, std::vector<std::string> otherwise) const;
  const Attribute* attribute(std::string_view name) const;  // null when it is not there
  bool has(std::string_view name) const { return attribute(name) != nullptr; }

  // Makes output `index`; its bytes are zero. Errors: resource_exhausted, malformed for dims below 0.
  Result<Tensor*> make(int index, DType dtype, Dims dims);
  void set(int index, Value value);

  GraphRunner& graphs() { return graphs_; }
  std::vector<Value> take_outputs() { return std::move(outputs_); }

 private:
  const Node& node_;
  const int64_t opset_;
  const std::span<const Value> inputs_;
  GraphRunner& graphs_;
  std::vector<Value> outputs_;
};

struct OpRow {
  std::string_view name;
  int since;  // opset
  Status (*run)(OpContext& context);
};

// The row for a node of the standard domain at `opset`; null when there is none.
const OpRow* find_op(std::string_view name, int64_t opset);
std::span<const OpRow* const> all_ops();  // by name and opset

// ---- what many operators need

// `axis` counted from the end where it is negative. Errors: malformed outside [-rank, rank).
Result<int> normalize_axis(int64_t axis, int rank);
// The common shape of two or more by numpy's rules. Errors: malformed.
Result<Dims> broadcast(std::span<const int64_t> a, std::span<const int64_t> b);
// For each axis of `to` the step in elements through a tensor of dims `from` that is broadcast to it.
Dims broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to);
Dims contiguous_strides(std::span<const int64_t> dims);

}  // namespace headrace::onnx
