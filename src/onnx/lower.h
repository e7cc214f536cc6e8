#pragma once
// From an operator of ONNX to Headrace's ops, for one node whose types are known. A family of lowerings is a file in onnx/lower/, listed
// in onnx/lower.def; a row is an operator's name and a function.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "onnx/op.h"
#include "onnx/shape_inference.h"
#include "ops/movement.h"

namespace headrace::onnx {

// One node while it is lowered. Inputs are values of the graph that is built; constants are added when they are asked for.
class LowerContext : public NodeReader {
 public:
  LowerContext(GraphBuilder& builder, const Node& node, int64_t opset, std::string name, std::span<const ValueFact> inputs,
               std::span<const ValueFact> outputs, std::function<ValueId(int)> input);

  GraphBuilder& builder() { return builder_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  bool has_input(int index) const { return index < num_inputs() && !inputs_[static_cast<size_t>(index)].left_out; }
  bool wants_output(int index) const;
  ValueId input(int index) { return input_(index); }
  DType dtype(int index) const { return inputs_[static_cast<size_t>(index)].type.dtype; }
  DType output_dtype(int index) const { return outputs_[static_cast<size_t>(index)].type.dtype; }
  Dims dims(int index) const;         // of an input
  Dims output_dims(int index) const;
  int rank(int index) const { return static_cast<int>(dims(index).size()); }
  // Contents of a constant input; null for another.
  const Tensor* constant(int index) const;
  // The one element of a constant f32 (or f64, f16) input.
  std::optional<float> scalar(int index) const;
  // A constant's integers (i64 or i32 of rank 0 or 1).
  std::optional<std::vector<int64_t>> integers(int index) const;
  using NodeReader::integers;
  bool all_f32() const { return all_f32_but(-1); }  // every input that is there, and every output
  bool all_f32_but(int input) const;                // the same, one input aside

  // Makes output `index`.
  void set(int index, ValueId value) { made_[static_cast<size_t>(index)] = value; }
  const std::vector<ValueId>& made() const { return made_; }

  // For `return context.decline("...")`: why this form has no lowering. false.
  bool decline(std::string reason);
  // What was given to decline(), or the types that no lowering takes.
  std::string why_declined() const;

  // Shorthand for nodes of one output or more, named after the ONNX node.
  ValueId emit(const Op& op, Attrs attrs, std::vector<ValueId> inputs) {
    return builder_.node(op, std::move(attrs), std::move(inputs), name_);
  }
  std::vector<ValueId> emit(const Op& op, Attrs attrs, std::vector<ValueId> inputs, size_t num_outputs) {
    return builder_.nodes(op, std::move(attrs), std::move(inputs), name_, num_outputs);
  }
  Dims dims_of(ValueId value) const;
  ValueId reshape(ValueId value, Dims dims);            // value itself where nothing changes
  ValueId transpose(ValueId value, std::vector<int32_t> perm);
  // [N, C, ...] -> [N, ..., C] and back: a layout, which stands for no node of the file.
  ValueId to_channels_last(ValueId value);
  ValueId to_channels_first(ValueId value);
  ValueId constant_f32(Dims dims, const std::vector<double>& values);

 private:
  GraphBuilder& builder_;
  const std::string name_;
  const std::span<const ValueFact> inputs_, outputs_;
  const std::function<ValueId(int)> input_;
  ValueId reorder(ValueId value, std::vector<int32_t> perm);  // a transpose that stands for no node of the file
  std::vector<ValueId> made_;
  std::string declined_;
};

// The dims of a tensor that are all known, and its type in a program. Dims are at most kMaxRank.
Dims static_dims(const ValueFact& fact);
ValueType value_type(const ValueFact& fact);
ValueType value_type(DType dtype, const Dims& dims);

// Whether `from` broadcasts to `to` as it is: numpy's rule in one direction.
bool goes_into(const Dims& from, const Dims& to);

// true: all outputs that are wanted were made. false, or an op that refuses what it is given: this form has no lowering; what was added is
// taken back, and the host computes it. What ONNX refuses must be left to the host too, which says why.
using Lower = bool (*)(LowerContext& context);

struct LowerRow {
  std::string_view name;
  Lower lower;
};

// A node with the attributes of Conv, of f32 images and weights of one or two dimensions as ONNX has them; `bias` may be kNone. Its output
// has the dims of the node's output 0. kNone where there is no lowering.
ValueId emit_conv(LowerContext& context, ValueId x, ValueId weight, ValueId bias);

// The row for an operator of the standard domain; null when there is none.
const LowerRow* find_lowering(std::string_view name);

}  // namespace headrace::onnx
