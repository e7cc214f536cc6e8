// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * scale + bias, spelled with simpler operators, becomes layer_norm over rows. A scale
// or bias that is not there counts as 1 or 0; one that comes later is taken in.
#include "ops/layer_norm.h"

#include "graph/match.h"
#include "graph/passes.h"
#include "graph/passes/normalization.h"

namespace headrace::passes {
namespace {

using ops::BinaryKind;

// x where `centered` = x - mean(x).
ValueId match_centered(Rewriter& graph, ValueId centered, int64_t width) {
  const Node* node = match::of(graph, centered, ops::binary);
  if (!match::is_binary(node, BinaryKind::sub)) return kNone;
  return match_mean(graph, node->inputs[1], width) == node->inputs[0] ? node->inputs[0] : kNone;
}

ValueId fused_quotient(Rewriter& graph, const Node& node) {
  const auto norm = match_root_mean_square_norm(graph, node);
  const ValueId x = norm ? match_centered(graph, norm->x, norm->width) : kNone;
  if (x == kNone) return kNone;
  const std::vector<double> ones(static_cast<size_t>(norm->width), 1.0), zeros(static_cast<size_t>(norm->width), 0.0);
  return add_norm(graph, ops::layer_norm, ops::LayerNormAttrs{norm->eps}, x, norm->width, {ones, zeros}, node.name);
}

// x * inverse + (bias - mean(x) * inverse) with inverse = scale / sqrt(...), as TensorFlow writes it.
ValueId fused_two_products(Rewriter& graph, const Node& node) {
  if (!match::is_binary(&node, BinaryKind::add)) return kNone;
  for (int side = 0; side < 2; ++side) {
    const Node* product = match::single(graph, node.inputs[side], ops::binary);
    const Node* rest = match::single(graph, node.inputs[1 - side], ops::binary);
    if (!match::is_binary(product, BinaryKind::mul) || !match::is_binary(rest, BinaryKind::sub)) continue;
    const Node* shift = match::single(graph, rest->inputs[1], ops::binary);
    if (!match::is_binary(shift, BinaryKind::mul)) continue;
    for (int left = 0; left < 2; ++left) {
      const ValueId x = product->inputs[left], scaled = product->inputs[1 - left];
      const ValueId mean = match::other_input(*shift, scaled);
      const Node* scale = match::of(graph, scaled, ops::binary);
      if (mean == kNone || graph.num_uses(scaled) != 2 || !match::is_binary(scale, BinaryKind::mul)) continue;
      for (int right = 0; right < 2; ++right) {
        const auto inverse = match_inverse_root(graph, scale->inputs[right]);
        if (!inverse || match_centered(graph, inverse->x, inverse->width) != x || match_mean(graph, mean, inverse->width) != x) continue;
        const auto weight = width_vector(graph, scale->inputs[1 - right], x, inverse->width);
        const auto bias = width_vector(graph, rest->inputs[0], x, inverse->width);
        if (!weight || !bias) continue;
        return add_norm(graph, ops::layer_norm, ops::LayerNormAttrs{inverse->eps}, x, inverse->width, {*weight, *bias}, node.name);
      }
    }
  }
  return kNone;
}

Result<int> run(Graph& graph, const PassOptions&) {
  if (!has_constant_shapes(graph)) return 0;
  Rewriter rewriter(graph);
  int norms = 0;  // what a norm takes in is no hit of its own
  rewriter.replace_each([&](const Node& node) {
    if (node.op != &ops::binary) return kNone;
    ValueId norm = fused_quotient(rewriter, node);
    if (norm == kNone) norm = fused_two_products(rewriter, node);
    if (norm == kNone) return fold_into_norm(rewriter, ops::layer_norm, node);
    ++norms;
    return norm;
  });
  return rewriter.finish(norms);
}

}  // namespace

extern const Pass fuse_layer_norm_pass;
const Pass fuse_layer_norm_pass = {"fuse_layer_norm", "Makes one layer_norm of the operators that spell it, with its scale and bias.", run};

}  // namespace headrace::passes
