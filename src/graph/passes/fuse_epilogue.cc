// What follows a convolution or gemm element by element becomes its epilogue, where nothing else reads the value between: a constant bias
// for each column, a computed residual of the output's shape, one activation.
#include "graph/match.h"
#include "graph/movements.h"
#include "graph/passes.h"
#include "graph/passes/linear_node.h"
#include "graph/passes/simplify_shapes.h"
#include "ops/movement.h"

namespace headrace::passes {
namespace {

// The linear node whose output `value` is read here alone.
std::optional<LinearNode> open_linear(Rewriter& graph, ValueId value) {
  if (graph.num_uses(value) != 1) return std::nullopt;
  auto linear = LinearNode::of(graph.producer(value));
  return linear && !linear->activation ? linear : std::nullopt;
}

ValueId with_addend(Rewriter& graph, const Node& sum) {
  if (sum.inputs[0] == sum.inputs[1]) return kNone;
  const Shape shape = graph.type(sum.outputs[0]).shape;
  // Of two candidates the later one: its residual is then there when it runs.
  const auto place = [&](ValueId value) { return graph.value(value).producer; };
  const int later = place(sum.inputs[1]) > place(sum.inputs[0]) ? 1 : 0;
  for (const int side : {later, 1 - later}) {
    const ValueId value = sum.inputs[side], other = sum.inputs[1 - side];
    auto linear = open_linear(graph, value);
    if (!linear || !(graph.type(value).shape == shape)) continue;
    const int64_t columns = shape[shape.rank() - 1].constant();
    if (const auto vector = match::column_vector(graph, other, columns)) {
      if (linear->bias != kNone) continue;
      linear->bias = graph.constant(graph.value(other).name, DType::f32, {columns}, *vector);
    } else if (graph.type(other).shape == shape && linear->residual == kNone) {
      linear->residual = other;
    } else {
      continue;
    }
    return linear->add_to(graph);
  }
  return kNone;
}

// A reshape between them (a vector of channels seen as an image) comes after both.
ValueId with_activation(Rewriter& graph, const Node& unary) {
  const Node* reshape = match::single(graph, unary.inputs[0], ops::reshape);
  auto linear = open_linear(graph, reshape == nullptr ? unary.inputs[0] : reshape->inputs[0]);
  if (!linear) return kNone;
  linear->activation = unary.attrs.as<ops::UnaryAttrs>();
  return movements::reshape(graph, linear->add_to(graph), graph.dims(unary.outputs[0]), unary.name);
}

ValueId fused(Rewriter& graph, const Node& node) {
  if (match::is_binary(&node, ops::BinaryKind::add)) return with_addend(graph, node);
  return node.op == &ops::unary ? with_activation(graph, node) : kNone;
}

Result<int> run(Graph& graph, const PassOptions&) {
  if (!has_constant_shapes(graph)) return 0;
  Rewriter rewriter(graph);
  const int hits = rewriter.replace_each([&](const Node& node) { return fused(rewriter, node); });
  if (hits > 0) simplify_all(rewriter);  // reshapes that meet now
  return rewriter.finish(hits);
}

}  // namespace

extern const Pass fuse_epilogue_pass;
const Pass fuse_epilogue_pass = {"fuse_epilogue", "Makes bias, residual and activation part of the convolution or gemm before them.", run};

}  // namespace headrace::passes
