#include "graph/passes/heads.h"

#include "graph/match.h"
#include "graph/movements.h"
#include "ops/movement.h"

namespace headrace::passes {
namespace {

using movements::Dims;
using movements::Perm;

const Perm kSwapHeads = {0, 2, 1, 3};

}  // namespace

bool lies_by_heads(Rewriter& graph, ValueId value) {
  if (movements::moves_nothing(graph.dims(value), kSwapHeads)) return true;
  const Node* transpose = match::of(graph, value, ops::transpose);
  if (transpose == nullptr) return false;
  const Perm whole = movements::then(transpose->attrs.as<ops::TransposeAttrs>().perm, kSwapHeads);
  return movements::moves_nothing(graph.dims(transpose->inputs[0]), whole);
}

ValueId flat_heads(Rewriter& graph, ValueId value, const std::string& name) {
  const Dims dims = graph.dims(value);
  return movements::reshape(graph, movements::transpose(graph, value, kSwapHeads, name), {dims[0], dims[2], dims[1] * dims[3]}, name);
}

ValueId split_heads(Rewriter& graph, ValueId value, int64_t heads, const std::string& name) {
  const Dims dims = graph.dims(value);
  const ValueId split = movements::reshape(graph, value, {dims[0], dims[1], heads, dims[2] / heads}, name);
  return movements::transpose(graph, split, kSwapHeads, name);
}

}  // namespace headrace::passes
