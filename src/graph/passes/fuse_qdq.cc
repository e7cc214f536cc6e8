// Quantized models come as float nodes between dequantize_linear and quantize_linear; what they mean is arithmetic of 8 bits:
//   convolutions and products of dequantized numbers by a dequantized constant become conv_q8 and gemm_q8, with the quantize_linear behind
//   them; sums of two dequantized values that are quantized become add_q8; what only moves elements (or takes the largest of windows)
//   moves 8 bits instead of floats; a dequantize_linear and a quantize_linear of the same numbers cancel.
// What is left stays as it is, but for dequantized constants, which become floats.
#include <algorithm>
#include <cmath>

#include "graph/fold_constants.h"
#include "graph/match.h"
#include "graph/passes.h"
#include "graph/passes/linear_node.h"
#include "ops/add_q8.h"
#include "ops/conv_q8.h"
#include "ops/gemm_q8.h"
#include "ops/movement.h"
#include "ops/pool_2d.h"

namespace headrace::passes {
namespace {

using ops::Quantization;

// The scale and zero point of a node of either op, where it has one of each.
std::optional<Quantization> quantization_of(Rewriter& graph, const Node& node, DType dtype) {
  if (!ops::is_8_bit(dtype) || !graph.is_constant(node.inputs[1]) || !graph.is_constant(node.inputs[2])) return std::nullopt;
  const std::vector<double> scale = constant_values(graph.value(node.inputs[1])), zero = constant_values(graph.value(node.inputs[2]));
  if (scale.size() != 1) return std::nullopt;
  const Quantization quantization{dtype, static_cast<float>(scale[0]), static_cast<int32_t>(zero[0])};
  return ops::wrong_quantization(quantization).empty() ? std::optional(quantization) : std::nullopt;
}

// `value` = dequantize_linear(q) with one scale.
struct Dequantized {
  ValueId q;
  Quantization of;
  const Node* node;
};
std::optional<Dequantized> dequantized(Rewriter& graph, ValueId value) {
  const Node* node = value == kNone ? nullptr : match::of(graph, value, ops::dequantize_linear);
  if (node == nullptr || graph.is_constant(node->inputs[0])) return std::nullopt;
  const auto of = quantization_of(graph, *node, graph.type(node->inputs[0]).dtype);
  return of ? std::optional(Dequantized{node->inputs[0], *of, node}) : std::nullopt;
}

ValueId dequantize_as(Rewriter& graph, const Node& like, ValueId q, const std::string& name) {
  return graph.add(ops::dequantize_linear, like.attrs, {q, like.inputs[1], like.inputs[2]}, name);
}

// ---- weights

// A constant 8-bit weight as i8 around 0, and the scale of each column.
struct Weight {
  ValueId values;
  std::vector<double> scales;
};
std::optional<Weight> weight_of(Rewriter& graph, ValueId value, int32_t column_axis) {
  const Node* node = match::of(graph, value, ops::dequantize_linear);
  if (node == nullptr) return std::nullopt;
  for (const ValueId input : node->inputs) {
    if (!graph.is_constant(input)) return std::nullopt;
  }
  const ValueId q = node->inputs[0];
  const std::vector<int64_t> dims = graph.dims(q);
  const DType dtype = graph.type(q).dtype;
  std::vector<double> scales = constant_values(graph.value(node->inputs[1])), zeros = constant_values(graph.value(node->inputs[2]));
  if (!ops::is_8_bit(dtype) || scales.empty()) return std::nullopt;
  const int64_t columns = dims[static_cast<size_t>(column_axis)];
  if (scales.size() == 1) {
    scales.assign(static_cast<size_t>(columns), scales[0]);
    zeros.assign(static_cast<size_t>(columns), zeros[0]);
  } else if (node->attrs.as<ops::QuantizeLinearAttrs>().axis != column_axis) {
    return std::nullopt;
  }
  if (dtype == DType::i8 && std::all_of(zeros.begin(), zeros.end(), [](double zero) { return zero == 0; })) return Weight{q, scales};
  std::vector<double> values = constant_values(graph.value(q));
  int64_t inner = 1;
  for (size_t axis = dims.size() - 1; axis > static_cast<size_t>(column_axis); --axis) inner *= dims[axis];
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] -= zeros[i / static_cast<size_t>(inner) % static_cast<size_t>(columns)];
    if (values[i] < -128 || values[i] > 127) return std::nullopt;
  }
  if (!graph.affords(static_cast<int64_t>(values.size()))) return std::nullopt;
  return Weight{graph.constant(graph.value(q).name, DType::i8, dims, values), scales};
}

// ---- products

ValueId fused_product(Rewriter& graph, const Node& node) {
  auto linear = LinearNode::of(&node);
  if (!linear || linear->op == &ops::conv_transpose) return kNone;
  const auto x = dequantized(graph, linear->x);
  const bool is_gemm = linear->op == &ops::gemm;
  if (!x || (is_gemm && graph.type(linear->weight).shape.rank() != 2)) return kNone;
  const auto weight = weight_of(graph, linear->weight, is_gemm && !linear->gemm.trans_b ? 1 : 0);
  if (!weight) return kNone;
  std::vector<double> scales = weight->scales;
  for (double& scale : scales) scale *= static_cast<double>(x->of.scale) * (is_gemm ? static_cast<double>(linear->gemm.scale) : 1.0);
  const auto columns = static_cast<int64_t>(scales.size());
  std::vector<ValueId> inputs = {x->q, weight->values, graph.constant(node.name + ".scale", DType::f32, {columns}, scales)};
  ops::Q8ProductAttrs q8{.x_zero = x->of.zero, .epilogue = {linear->bias != kNone, linear->residual != kNone, linear->activation}, .y = {}};
  if (linear->bias != kNone) inputs.push_back(linear->bias);
  if (linear->residual != kNone) inputs.push_back(linear->residual);
  if (is_gemm) return graph.add(ops::gemm_q8, ops::GemmQ8Attrs{linear->gemm.trans_b, q8}, std::move(inputs), node.name);
  linear->conv.epilogue = {};
  return graph.add(ops::conv_q8, ops::ConvQ8Attrs{linear->conv, q8}, std::move(inputs), node.name);
}

// ---- what stands before a quantize_linear

// conv_q8 or gemm_q8 that nothing else reads, with its output quantized.
ValueId quantized_product(Rewriter& graph, const Node& node, const Quantization& y) {
  if (const Node* conv = match::single(graph, node.inputs[0], ops::conv_q8)) {
    auto attrs = conv->attrs.as<ops::ConvQ8Attrs>();
    attrs.q8.y = y;
    return graph.add(ops::conv_q8, attrs, conv->inputs, conv->name);
  }
  if (const Node* gemm = match::single(graph, node.inputs[0], ops::gemm_q8)) {
    auto attrs = gemm->attrs.as<ops::GemmQ8Attrs>();
    attrs.q8.y = y;
    return graph.add(ops::gemm_q8, attrs, gemm->inputs, gemm->name);
  }
  return kNone;
}

ValueId quantized_sum(Rewriter& graph, const Node& node, const Quantization& y) {
  const Node* sum = graph.producer(node.inputs[0]);
  ops::AddQ8Attrs attrs{.a = {}, .b = {}, .y = y, .activation = {}};
  if (sum != nullptr && sum->op == &ops::unary) {
    attrs.activation = sum->attrs.as<ops::UnaryAttrs>();
    if (!ops::add_q8_takes(*attrs.activation) || graph.num_uses(sum->outputs[0]) != 1) return kNone;
    sum = graph.producer(sum->inputs[0]);
  }
  if (!match::is_binary(sum, ops::BinaryKind::add) || graph.num_uses(sum->outputs[0]) != 1) return kNone;
  const auto a = dequantized(graph, sum->inputs[0]), b = dequantized(graph, sum->inputs[1]);
  if (!a || !b || !(graph.type(a->q).shape == graph.type(b->q).shape)) return kNone;
  attrs.a = a->of;
  attrs.b = b->of;
  return graph.add(ops::add_q8, attrs, {a->q, b->q}, sum->name);
}

ValueId fused_quantize(Rewriter& graph, const Node& node) {
  const auto y = quantization_of(graph, node, graph.type(node.outputs[0]).dtype);
  if (!y) return kNone;
  if (const auto x = dequantized(graph, node.inputs[0]); x && x->of == *y) return x->q;
  const ValueId product = quantized_product(graph, node, *y);
  return product == kNone ? quantized_sum(graph, node, *y) : product;
}

// ---- movements

// f(dequantize(q), ...) as dequantize(f(q, ...)) for an f that computes nothing but which element goes where.
ValueId moved(Rewriter& graph, const Node& node) {
  const bool largest = node.op == &ops::pool_2d && node.attrs.as<ops::Pool2dAttrs>().kind == ops::Pool2dAttrs::Kind::max;
  const bool one = node.op == &ops::reshape || node.op == &ops::transpose || node.op == &ops::slice || node.op == &ops::gather ||
                   node.op == &ops::expand || largest;
  if (!one && node.op != &ops::concat) return kNone;
  std::vector<ValueId> inputs = node.inputs;
  std::optional<Dequantized> first;
  for (size_t i = 0; i < (one ? 1 : inputs.size()); ++i) {
    const auto x = dequantized(graph, inputs[i]);
    if (!x || (first && !(x->of == first->of))) return kNone;
    if (!first) first = x;
    inputs[i] = x->q;
  }
  if (!first) return kNone;
  return dequantize_as(graph, *first->node, graph.add(*node.op, node.attrs, std::move(inputs), node.name), node.name);
}

// A constant weight under other dims that keep its first axis, which its scales go along.
ValueId reshaped_weight(Rewriter& graph, const Node& node) {
  const Node* weight = node.op == &ops::reshape ? match::of(graph, node.inputs[0], ops::dequantize_linear) : nullptr;
  if (weight == nullptr || !graph.is_constant(weight->inputs[0])) return kNone;
  const std::vector<int64_t> from = graph.dims(weight->inputs[0]), to = graph.dims(node.outputs[0]);
  const bool one_scale = graph.type(weight->inputs[1]).shape[0] == Dim(1);
  const bool keeps_first = weight->attrs.as<ops::QuantizeLinearAttrs>().axis == 0 && !from.empty() && !to.empty() && from[0] == to[0];
  if (!one_scale && !keeps_first) return kNone;
  return dequantize_as(graph, *weight, reshaped_constant(graph, weight->inputs[0], to), node.name);
}

// Asked once a node: it makes two others at most, and those make none but for movements that follow each other.
ValueId fused(Rewriter& graph, const Node& node) {
  ValueId better = node.op == &ops::quantize_linear ? fused_quantize(graph, node) : fused_product(graph, node);
  if (better == kNone) better = reshaped_weight(graph, node);
  return better == kNone ? moved(graph, node) : better;
}

// A dequantized constant that is left.
ValueId as_floats(Rewriter& graph, const Node& node) {
  if (node.op != &ops::dequantize_linear) return kNone;
  const std::vector<ValueId> folded = fold_constants(graph, node, true);
  return folded.empty() ? kNone : folded[0];
}

Result<int> run(Graph& graph, const PassOptions&) {
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.op == &ops::dequantize_linear; });
  if (!any || !has_constant_shapes(graph)) return 0;
  Rewriter rewriter(graph);
  int hits = rewriter.replace_each([&](const Node& node) { return fused(rewriter, node); });
  hits += rewriter.replace_each([&](const Node& node) { return as_floats(rewriter, node); });
  return rewriter.finish(hits);
}

}  // namespace

extern const Pass fuse_qdq_pass;
const Pass fuse_qdq_pass = {"fuse_qdq", "Makes 8-bit arithmetic of float nodes between dequantize_linear and quantize_linear.", run};

}  // namespace headrace::passes
