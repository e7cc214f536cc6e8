#pragma once
// What is known of a model's values before it runs: element types, dims, and the contents that follow from constants and from known dims
// alone. Dims are numbers, symbols that the model's inputs name, or unknown; nothing is ever guessed. A symbol stands for a dim of at
// least 1: where one of 0 would change an operator's meaning (a 0 in Reshape's target), it is not looked for.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx/model.h"

namespace headrace::onnx {

// An integer of a small tensor: a number, a symbol's value, or neither.
struct Element {
  std::optional<int64_t> number;
  std::string symbol;
  bool operator==(const Element&) const = default;
};

struct ValueFact {
  Type type;                                     // Kind::unknown: nothing is known
  std::optional<Tensor> constant;                // the contents; `type` is theirs
  std::optional<std::vector<Element>> elements;  // those of an i64 or i32 tensor of rank 0 or 1 whose dims are known; absent for constants
  bool left_out = false;                         // an optional input that is not there
};

struct InferOptions {
  // Nodes whose inputs are constants are computed while neither these nor the outputs have more elements than this.
  int64_t fold_elements = 1024;
};

// Facts of the outputs of one node of the standard domain; `inputs` as the node lists them. Values around the graphs that it holds are
// unknown to these. Errors: unsupported for no such operator, malformed for what contradicts the operator's document.
Result<std::vector<ValueFact>> infer_node(const Node& node, int64_t opset, std::span<const ValueFact> inputs,
                                          const InferOptions& options = {});

// Facts of all values of the model's main graph, by name. `inputs`: what stands in the place of the declared types, by name. An initializer
// that is an input too is a constant unless `inputs` names it. Errors: those of infer_node with the node, invalid_argument for inputs that
// the model has not or declares otherwise, resource_exhausted for more than Interpreter::kMaxNodes nodes to look at, or kMaxDepth graphs
// within graphs.
Result<std::map<std::string, ValueFact>> infer_types(const Model& model, const std::map<std::string, Type>& inputs = {},
                                                     const InferOptions& options = {});

// Types of the outputs of a graph that a node holds, from facts of its inputs in order and of the values around it that it reads, by name.
// `functions`: the model whose functions it may call. Errors: as infer_types.
Result<std::vector<Type>> infer_held_graph(const Graph& graph, const std::vector<ValueFact>& inputs,
                                           const std::map<std::string, ValueFact>& outer,
                                           const std::map<std::string, int64_t>& opsets, const Model& functions);

}  // namespace headrace::onnx
