#include "graph/passes/normalization.h"

#include "graph/match.h"
#include "graph/movements.h"
#include "ops/movement.h"
#include "ops/reduce.h"
#include "ops/rms_norm.h"

namespace headrace::passes {
namespace {

using ops::BinaryKind;
using ops::UnaryKind;

// How many elements the axes of `reduce` hold, where they are the last ones; 0 where not.
int64_t width_of_last_axes(Rewriter& graph, const Node& reduce) {
  const auto& axes = reduce.attrs.as<ops::ReduceAttrs>().axes;
  const std::vector<int64_t> dims = graph.dims(reduce.inputs[0]);
  int64_t width = 1;
  for (size_t back = 1; back <= axes.size(); ++back) {
    if (axes[axes.size() - back] != static_cast<int32_t>(dims.size() - back)) return 0;
    width *= dims[dims.size() - back];
  }
  return axes.empty() ? 0 : width;
}

const Node* mean_over_last_axes(Rewriter& graph, ValueId value) {
  const Node* node = match::of(graph, value, ops::reduce);
  if (node == nullptr) return nullptr;
  const auto& reduce = node->attrs.as<ops::ReduceAttrs>();
  return reduce.kind == ops::ReduceAttrs::Kind::mean && reduce.keep_dims && width_of_last_axes(graph, *node) > 0 ? node : nullptr;
}

// x of `value` = x * x.
ValueId square_root_of(Rewriter& graph, ValueId value) {
  const Node* node = match::single(graph, value, ops::binary);
  if (match::is_binary(node, BinaryKind::mul) && node->inputs[0] == node->inputs[1]) return node->inputs[0];
  const auto power = match::with_number(graph, node, BinaryKind::pow);
  return power && power->number == 2 ? power->x : kNone;
}

// `value` = mean(x^2) + eps.
std::optional<RootMeanSquareNorm> match_mean_square(Rewriter& graph, ValueId value) {
  const auto sum = match::with_number(graph, match::single(graph, value, ops::binary), BinaryKind::add);
  if (!sum || sum->number < 0 || graph.num_uses(sum->x) != 1) return std::nullopt;
  const Node* mean = mean_over_last_axes(graph, sum->x);
  if (mean == nullptr) return std::nullopt;
  const ValueId x = square_root_of(graph, mean->inputs[0]);
  if (x == kNone) return std::nullopt;
  return RootMeanSquareNorm{x, width_of_last_axes(graph, *mean), static_cast<float>(sum->number)};
}

// `value` = sqrt(mean(x^2) + eps).
std::optional<RootMeanSquareNorm> match_root(Rewriter& graph, ValueId value) {
  const Node* root = graph.num_uses(value) == 1 ? graph.producer(value) : nullptr;
  if (match::is_unary(root, UnaryKind::sqrt)) return match_mean_square(graph, root->inputs[0]);
  const auto power = match::with_number(graph, root, BinaryKind::pow);
  return power && power->number == 0.5 ? match_mean_square(graph, power->x) : std::nullopt;
}

}  // namespace

std::optional<RootMeanSquareNorm> match_inverse_root(Rewriter& graph, ValueId value) {
  const Node* node = value != kNone && graph.num_uses(value) == 1 ? graph.producer(value) : nullptr;
  if (match::is_unary(node, UnaryKind::reciprocal)) return match_root(graph, node->inputs[0]);
  if (match::is_binary(node, BinaryKind::div) && match::is_scalar(graph, node->inputs[0], 1)) return match_root(graph, node->inputs[1]);
  const auto power = match::with_number(graph, node, BinaryKind::pow);
  return power && power->number == -0.5 ? match_mean_square(graph, power->x) : std::nullopt;
}

std::optional<RootMeanSquareNorm> match_root_mean_square_norm(Rewriter& graph, const Node& node) {
  if (match::is_binary(&node, BinaryKind::div)) {
    const auto root = match_root(graph, node.inputs[1]);
    return root && root->x == node.inputs[0] ? root : std::nullopt;
  }
  if (!match::is_binary(&node, BinaryKind::mul)) return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    const auto inverse = match_inverse_root(graph, node.inputs[side]);
    if (inverse && inverse->x == node.inputs[1 - side]) return inverse;
  }
  return std::nullopt;
}

ValueId match_mean(Rewriter& graph, ValueId value, int64_t width) {
  const Node* mean = mean_over_last_axes(graph, value);
  return mean != nullptr && width_of_last_axes(graph, *mean) == width ? mean->inputs[0] : kNone;
}

std::optional<std::vector<double>> width_vector(Rewriter& graph, ValueId constant, ValueId value, int64_t width) {
  if (!graph.is_constant(constant) || graph.type(constant).dtype != DType::f32) return std::nullopt;
  const std::vector<int64_t> dims = graph.dims(constant), whole = graph.dims(value);
  if (dims.size() > whole.size()) return std::nullopt;
  if (movements::count(dims) == 1) return std::vector<double>(static_cast<size_t>(width), constant_values(graph.value(constant))[0]);
  int64_t covered = 1;  // elements of the last axes seen so far
  for (size_t back = 1; back <= dims.size(); ++back) {
    const int64_t want = covered < width ? whole[whole.size() - back] : 1;
    if (dims[dims.size() - back] != want) return std::nullopt;
    covered *= want;
  }
  if (covered != width) return std::nullopt;
  return constant_values(graph.value(constant));
}

ValueId add_norm(Rewriter& graph, const Op& op, Attrs attrs, ValueId x, int64_t width, const std::vector<std::vector<double>>& vectors,
                 const std::string& name) {
  const std::vector<int64_t> dims = graph.dims(x);
  const bool is_last_axis = dims.size() >= 2 && dims.back() == width;
  std::vector<ValueId> inputs = {is_last_axis ? x : movements::reshape(graph, x, {movements::count(dims) / width, width}, name)};
  for (const std::vector<double>& vector : vectors) inputs.push_back(graph.constant(name, DType::f32, {width}, vector));
  return movements::reshape(graph, graph.add(op, std::move(attrs), std::move(inputs), name), dims, name);
}

ValueId fold_into_norm(Rewriter& graph, const Op& op, const Node& node) {
  const bool scales = match::is_binary(&node, BinaryKind::mul);
  if (!scales && !match::is_binary(&node, BinaryKind::add)) return kNone;
  for (int side = 0; side < 2; ++side) {
    ValueId value = node.inputs[side];
    if (graph.type(value).shape != graph.type(node.outputs[0]).shape) continue;
    if (const Node* reshape = match::single(graph, value, ops::reshape)) value = reshape->inputs[0];
    const Node* norm = match::single(graph, value, op);
    if (norm == nullptr || (!scales && norm->inputs.size() < 3)) continue;
    const int64_t width = graph.dims(value).back();
    const bool has_offset = &op == &ops::rms_norm && norm->attrs.as<ops::RmsNormAttrs>().offset != 0;
    if (width == 0 || has_offset) continue;
    const auto factor = width_vector(graph, node.inputs[1 - side], node.outputs[0], width);
    if (!factor || factor->size() != static_cast<size_t>(width)) continue;
    std::vector<std::vector<double>> vectors;
    for (size_t index = 1; index < norm->inputs.size(); ++index) {
      if (!graph.is_constant(norm->inputs[index])) return kNone;
      vectors.push_back(constant_values(graph.value(norm->inputs[index])));
      const bool changes = scales || index == 2;
      if (vectors.back().size() != factor->size()) return kNone;
      for (size_t i = 0; i < factor->size() && changes; ++i) {
        vectors.back()[i] = scales ? vectors.back()[i] * (*factor)[i] : vectors.back()[i] + (*factor)[i];
      }
    }
    const ValueId y = add_norm(graph, op, norm->attrs, norm->inputs[0], width, vectors, norm->name);
    return movements::reshape(graph, y, graph.dims(node.outputs[0]), node.name);
  }
  return kNone;
}

}  // namespace headrace::passes
