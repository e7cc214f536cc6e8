#pragma once
// What the rules are made of that give a node's output types from its inputs': the node's facts, arithmetic of dims, and the rules that
// many operators share. A rule stands beside its operator's `run` in onnx/ops/.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/op.h"
#include "onnx/shape_inference.h"

namespace headrace::onnx {

using Dim = Type::Dim;
using Shape = std::vector<Dim>;
using Elements = std::vector<Element>;

// Infers graphs that an operator holds.
class GraphInference {
 public:
  virtual ~GraphInference() = default;
  // Facts of the graph's outputs. `inputs` are bound to its inputs in order; outer values are visible to it.
  virtual Result<std::vector<ValueFact>> infer(const Graph& graph, std::vector<ValueFact> inputs) = 0;
};

// A tensor input; what is absent is not known.
struct TensorFact {
  std::optional<DType> dtype;
  std::optional<Shape> shape;
  bool has_rank(size_t rank) const { return shape && shape->size() == rank; }
};

// One node whose types are inferred; it starts with outputs of which nothing is known. Errors need not name the node.
class InferContext : public NodeReader {
 public:
  InferContext(const Node& node, int64_t opset, std::span<const ValueFact> inputs, GraphInference& graphs);

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has_input(int index) const;
  const ValueFact& fact(int index) const;  // one that is left out where the node has no such input
  // A tensor that must be there. Errors: malformed when it is left out or surely something else.
  Result<TensorFact> input(int index) const;
  const Tensor* constant(int index) const;  // null: not known
  // An i64 or i32 tensor of rank 0 or 1: all its elements where they are constants, or what is known of each; nothing where even their
  // number is unknown (or beyond a thousand). Errors: malformed when it is surely none.
  Result<std::optional<std::vector<int64_t>>> integers(int index) const;
  Result<std::optional<Elements>> elements(int index) const;
  using NodeReader::integers;
  // The only element of an integer input. Errors: malformed.
  Result<std::optional<int64_t>> integer_input(int index) const;

  void set(int index, ValueFact fact);
  void set(int index, Type type);
  void set(int index, std::optional<DType> dtype, std::optional<Shape> shape);  // without a dtype nothing is known
  void set_constant(int index, Tensor tensor);
  // A tensor of these integers, constant where all are numbers. `rank`: 0 or 1.
  void set_elements(int index, DType dtype, int rank, Elements elements);

  GraphInference& graphs() { return graphs_; }
  std::vector<ValueFact> take_outputs() { return std::move(outputs_); }

 private:
  const std::span<const ValueFact> inputs_;
  GraphInference& graphs_;
  std::vector<ValueFact> outputs_;
};

// ---- dims

inline Dim dim_of(int64_t value) { return {value, ""}; }
inline bool is_known(const Dim& dim) { return dim.value >= 0; }
bool surely_same(const Dim& a, const Dim& b);  // one number or one symbol
Shape shape_of(std::span<const int64_t> dims);
Shape unknown_shape(size_t rank);
std::optional<Dims> known_dims(const Shape& shape);  // where all are numbers

// Numbers compute; a symbol survives + 0 and x 1; what would not fit into 64 bits is unknown.
Dim sum(const Dim& a, const Dim& b);
Dim product(const Dim& a, const Dim& b);
Dim product(std::span<const Dim> dims);
// a / b where it is sure to be whole: of numbers, and of products that have b's symbols. Unknown otherwise.
Dim quotient(std::span<const Dim> a, std::span<const Dim> b);

// What both say of one dim or one shape: the more that is known. Errors: malformed where they contradict each other.
Result<Dim> agreed(const Dim& a, const Dim& b, std::string_view name);
Result<Shape> agreed(const Shape& a, const Shape& b, std::string_view name);
// By numpy's rules. Errors: malformed.
Result<Dim> broadcast(const Dim& a, const Dim& b);
Result<Shape> broadcast(const Shape& a, const Shape& b);
// Errors: malformed for a known rank that is another, or below `least`.
Status want_rank(const TensorFact& tensor, size_t rank, std::string_view name);
Status want_rank_from(const TensorFact& tensor, size_t least, std::string_view name);
Status want_dtype(const TensorFact& tensor, DType dtype, std::string_view name);
// The element type that both have. Errors: malformed.
Result<std::optional<DType>> same_dtype(const TensorFact& a, const TensorFact& b);

Element element_of(const Dim& dim);
Dim dim_of(const Element& element);  // unknown for what is below 0
// A tensor whose dims these are. Errors: malformed for numbers below 0.
Result<Shape> shape_of(const Elements& elements);

// ---- types

Type tensor_type(DType dtype, std::optional<Shape> shape);
Type type_of(const Value& value);
Type sequence_of(Type element);
Type common_type(const Type& a, const Type& b);            // what holds of both
bool same_type(const Type& a, const Type& b);
ValueFact common_fact(const ValueFact& a, const ValueFact& b);
ValueFact constant_fact(Tensor tensor);
ValueFact fact_of(const Value& value);  // all that there is to know: a tensor's contents too

// ---- rules that many operators share

Status infer_same(InferContext& context);       // output 0 is as input 0
Status infer_bool(InferContext& context);       // output 0 has the dims of input 0, bool
Status infer_broadcast(InferContext& context);  // all inputs are of one type and are broadcast
Status infer_compare(InferContext& context);    // the same, bool
// The same as input 0, of the type that the attribute says.
Status infer_same_with(InferContext& context, std::string_view dtype_attribute);
// The common shape of inputs from `first` up to `last`. Nothing where a rank is not known.
Result<std::optional<Shape>> broadcast_inputs(const InferContext& context, int first, int last);

}  // namespace headrace::onnx
