#include "graph/passes/linear_node.h"

namespace headrace::passes {

std::optional<LinearNode> LinearNode::of(const Node* node) {
  if (node == nullptr || (node->op != &ops::conv && node->op != &ops::conv_transpose && node->op != &ops::gemm)) return std::nullopt;
  LinearNode linear;
  linear.op = node->op;
  ops::Epilogue epilogue;
  if (node->op == &ops::gemm) {
    linear.gemm = node->attrs.as<ops::GemmAttrs>();
    epilogue = linear.gemm.epilogue;
  } else {
    linear.conv = node->attrs.as<ops::ConvAttrs>();
    epilogue = linear.conv.epilogue;
  }
  linear.x = node->inputs[0];
  linear.weight = node->inputs[1];
  size_t next = 2;
  if (epilogue.bias) linear.bias = node->inputs[next++];
  if (epilogue.residual) linear.residual = node->inputs[next++];
  linear.activation = epilogue.activation;
  linear.name = node->name;
  return linear;
}

ValueId LinearNode::add_to(Rewriter& graph) const {
  const ops::Epilogue epilogue{bias != kNone, residual != kNone, activation};
  std::vector<ValueId> inputs = {x, weight};
  if (bias != kNone) inputs.push_back(bias);
  if (residual != kNone) inputs.push_back(residual);
  if (op == &ops::gemm) {
    ops::GemmAttrs attrs = gemm;
    attrs.epilogue = epilogue;
    return graph.add(*op, attrs, std::move(inputs), name);
  }
  ops::ConvAttrs attrs = conv;
  attrs.epilogue = epilogue;
  return graph.add(*op, attrs, std::move(inputs), name);
}

}  // namespace headrace::passes
