#pragma once
// The IR of every model: values in static single assignment, nodes in a valid execution order, symbolic shapes. A graph
// holds no weight bytes: a weight value carries the recipe by which runtime's WeightStore makes it. Not thread-safe while
// it is built or rewritten; immutable and shared afterwards.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/shape.h"
#include "graph/constant_bytes.h"
#include "ops/op.h"

namespace headrace {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr int32_t kNone = -1;

// Rows [begin, end) of a checkpoint tensor; end -1: all. A merged linear keeps its list of parts, so that LoRA, the
// quality ledger and sharding find each Hugging Face tensor inside it.
struct WeightPart {
  std::string source;  // Hugging Face tensor name
  int64_t begin = 0;
  int64_t end = -1;
  bool operator==(const WeightPart&) const = default;
};

// source names -> slices -> concatenation along rows -> layout. The layout comes from the kernel that was selected.
struct WeightRecipe {
  std::vector<WeightPart> parts;
  bool operator==(const WeightRecipe&) const = default;
  std::string describe() const;
};

enum class ValueRole : uint8_t {
  computed,  // a node's output
  input,     // bound per step: a field of the step plan, or a named input
  weight,    // from the WeightStore
  state,     // lives from step to step: KV layers, last sampled tokens
  constant,  // data held by the graph
};

// Elements of a constant and what keeps them in memory.
template <class T>
class HeldSpan : public std::span<const T> {
 public:
  HeldSpan(std::shared_ptr<const std::byte[]> bytes, size_t elements)
      : std::span<const T>(reinterpret_cast<const T*>(bytes.get()), elements), bytes_(std::move(bytes)) {}

 private:
  std::shared_ptr<const std::byte[]> bytes_;
};

struct Value {
  std::string name;
  ValueRole role = ValueRole::computed;
  ValueType type;
  NodeId producer = kNone;  // computed values
  WeightRecipe recipe;      // weights
  int32_t layer = kNone;    // kv states: the model layer
  ConstantBytes bytes;      // constants: packed elements of type.dtype

  uint64_t constant_bytes() const { return static_cast<uint64_t>(type.shape.elements(Bindings())) * dtype_bytes(type.dtype); }
  // A constant's elements, in memory as long as they are held. T is the dtype's C++ type.
  template <class T>
  HeldSpan<T> constant() const {
    CHECK(role == ValueRole::constant && sizeof(T) == dtype_bytes(type.dtype));
    return HeldSpan<T>(bytes.hold(), static_cast<size_t>(type.shape.elements(Bindings())));
  }
};

// A constant's elements as doubles, exactly but for integers beyond 2^53. Empty for dtypes that are not numbers of one part (complex).
std::vector<double> constant_values(const Value& constant);

struct Node {
  const Op* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> inputs;   // kNone: an optional input left out
  std::vector<ValueId> outputs;
  std::string name;              // "layers.3.self_attn.q_proj": where it came from
  bool dead = false;             // removed by a pass; compact() drops it
  bool in_place = false;         // its outputs may take the storage of inputs that end here: set by the pass in_place
  // Names of the nodes that were built and whose work it does: its own at first, then those of all that a rewrite folded into it.
  // Empty for what a pass or a layout added.
  std::vector<std::string> origins = {};

  // Takes over the origins of a node that it replaces.
  void absorb(Node& replaced);
};

struct GraphOutput {
  std::string name;  // "tokens", "logits", "hidden.12"
  ValueId value = kNone;
};

class Graph {
 public:
  SymbolTable symbols;
  std::vector<Value> values;
  std::vector<Node> nodes;  // in execution order
  std::vector<GraphOutput> outputs;

  ValueId add_input(std::string name, DType dtype, Shape shape);
  ValueId add_weight(std::string name, Format format, Shape shape, WeightRecipe recipe);
  ValueId add_state(std::string name, ValueType type, int32_t layer = kNone);
  // `data` is rounded to the dtype: f32, f16, bf16, f64, i8, u8, i32, i64 or boolean.
  ValueId add_constant(std::string name, DType dtype, std::vector<int64_t> dims, const std::vector<double>& data);
  // `bytes` are the packed elements; any dtype with bytes.
  ValueId add_constant_bytes(std::string name, DType dtype, Shape shape, ConstantBytes bytes);
  // Appends a node; its outputs are inferred. Errors: what infer() reports, with the node's name.
  Result<std::vector<ValueId>> add_node(const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name);
  // Inserts before node `at` (passes use it); the same otherwise. Node ids from `at` on move up by one.
  Result<std::vector<ValueId>> insert_node(NodeId at, const Op& op, Attrs attrs, std::vector<ValueId> inputs,
                                           std::string name);

  // A node that is not yet among `nodes`, with the values of its outputs, which the node `id` computes. Errors: those of add_node.
  Result<Node> make_node(NodeId id, const Op& op, Attrs attrs, std::vector<ValueId> inputs, std::string name);

  ValueId find(std::string_view name) const;
  void set_output(std::string name, ValueId value);
  // Every use of `from` (nodes and outputs) becomes `to`.
  void replace_uses(ValueId from, ValueId to);
  // The nodes that read each value, by value id.
  std::vector<std::vector<NodeId>> users() const;
  std::vector<ValueType> input_types(const Node& node) const;
  std::vector<ValueType> output_types(const Node& node) const;
  // Drops dead nodes and renumbers nodes; value ids stay.
  void compact();
  // One line a node; what plan dumps and tests compare.
  std::string to_string() const;
  // The line of one node: its outputs with their types, op, inputs, attributes and name.
  std::string node_to_string(NodeId id) const;

 private:
  std::string reference(ValueId id) const;
};

// Legal IR: every input is defined before its use, each value has one producer, types equal what infer() says, state
// writers of one state are ordered as they were, outputs exist. Run after every pass. Errors: internal, naming the node.
Status verify(const Graph& graph);

}  // namespace headrace
