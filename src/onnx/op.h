#pragma once
// Operators on the host, by the letter of the ONNX operator document: the meaning of every node. Slow loops are allowed here, wrong ones
// are not; what is fast is the graph layer's business, which is measured against these.
//
// An operator is a row of a family's table: name, the opset from which its meaning holds, what runs it, and what infers its outputs'
// types. Of the rows of one name the one with the highest opset that the model's does not exceed is taken. Families are files in
// onnx/ops/, listed in onnx/ops.def.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "onnx/model.h"

namespace headrace::onnx {

struct ValueFact;  // onnx/shape_inference.h

// Runs graphs that an operator holds (If, Loop, Scan, SequenceMap), and counts what operators make.
class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  // `inputs` are bound to the graph's inputs in order; outer values are visible to it.
  virtual Result<std::vector<Value>> run(const Graph& graph, std::vector<Value> inputs) = 0;
  // The types that its outputs would have, unknown ones among them. `inputs`: facts of the graph's inputs in order.
  virtual Result<std::vector<Type>> infer(const Graph& graph, const std::vector<ValueFact>& inputs) = 0;
  // Asked before a tensor is made. Errors: resource_exhausted.
  virtual Status charge(uint64_t bytes) = 0;
};

// What a node says of itself: its attributes, and which outputs are wanted. The node must outlive it.
class NodeReader {
 public:
  NodeReader(const Node& node, int64_t opset) : node_(node), opset_(opset) {}

  const Node& node() const { return node_; }
  int64_t opset() const { return opset_; }  // of the node's domain

  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  int num_outputs() const { return static_cast<int>(node_.outputs.size()); }
  bool wants_output(int index) const;

  // Attributes, or what stands for one that is not there. Errors: malformed for one of another kind.
  Result<int64_t> integer(std::string_view name, int64_t otherwise) const;
  Result<float> number(std::string_view name, float otherwise) const;
  Result<std::string> text(std::string_view name, std::string_view otherwise) const;
  Result<std::vector<int64_t>> integers(std::string_view name, std::vector<int64_t> otherwise) const;
  Result<std::vector<float>> numbers(std::string_view name, std::vector<float> otherwise) const;
  Result<std::vector<std::string>> texts(std::string_view name, std::vector<std::string> otherwise) const;
  const Attribute* attribute(std::string_view name) const;  // null when it is not there
  bool has(std::string_view name) const { return attribute(name) != nullptr; }
  // An attribute that says an element type; `otherwise` when it is not there. Errors: malformed, unsupported.
  Result<DType> dtype_attribute(std::string_view name, DType otherwise) const;
  // The graph of an attribute that must be there. Errors: malformed.
  Result<const Graph*> graph(std::string_view name) const;

 private:
  const Node& node_;
  const int64_t opset_;
};

// One call of an operator. Errors that it returns need not name the node: the caller does.
class OpContext : public NodeReader {
 public:
  OpContext(const Node& node, int64_t opset, std::span<const Value> inputs, GraphRunner& graphs);

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has_input(int index) const;
  const Value& value(int index) const;  // an empty one where the node has no such input
  // A tensor input that must be there. Errors: malformed.
  Result<const Tensor*> input(int index) const;
  // One-dimensional (or scalar) integers of an i64 or i32 input. Errors: malformed.
  Result<std::vector<int64_t>> integers(int index) const;
  using NodeReader::integers;

  // Makes output `index`; its bytes are zero. Errors: resource_exhausted, malformed for dims below 0.
  Result<Tensor*> make(int index, DType dtype, Dims dims);
  void set(int index, Value value);

  GraphRunner& graphs() { return graphs_; }
  std::vector<Value> take_outputs() { return std::move(outputs_); }

 private:
  const std::span<const Value> inputs_;
  GraphRunner& graphs_;
  std::vector<Value> outputs_;
};

class InferContext;  // onnx/infer.h

struct OpTraits {
  // Bit i: the operator hands on elements of input i without looking at them, so that what is known of single ones stays known.
  uint32_t moves = 0;
  bool pure = true;  // the same inputs give the same outputs, and no graph is run
};
inline constexpr OpTraits kMovesFirst{.moves = 1}, kMovesAll{.moves = ~uint32_t{0}}, kNotPure{.pure = false};

struct OpRow {
  std::string_view name;
  int since;  // opset
  Status (*run)(OpContext& context);
  Status (*infer)(InferContext& context) = nullptr;  // the outputs' types from the inputs'; null: nothing is known of them
  OpTraits traits;
};

// The row for a node of the standard domain at `opset`; null when there is none.
const OpRow* find_op(std::string_view name, int64_t opset);
std::span<const OpRow* const> all_ops();  // by name and opset

// The operator that a node calls.
struct CalledOp {
  const OpRow* row = nullptr;
  int64_t opset = 0;  // of the node's domain
};
// `opsets`: what the model imports, by domain; a node's own opset goes before it. Errors: unsupported where there is none.
Result<CalledOp> find_op(const Node& node, const std::map<std::string, int64_t>& opsets);

// ---- what many operators need

// The elements of an i64 or i32 tensor; nothing of another.
std::optional<std::vector<int64_t>> integers_of(const Tensor& tensor);
// A condition. Errors: malformed for what is not one bool.
Result<bool> truth_of(const Tensor& tensor);
// `axis` counted from the end where it is negative. Errors: malformed outside [-rank, rank).
Result<int> normalize_axis(int64_t axis, int rank);
// The common shape of two or more by numpy's rules. Errors: malformed.
Result<Dims> broadcast(std::span<const int64_t> a, std::span<const int64_t> b);
// For each axis of `to` the step in elements through a tensor of dims `from` that is broadcast to it.
Dims broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to);
Dims contiguous_strides(std::span<const int64_t> dims);

}  // namespace headrace::onnx
