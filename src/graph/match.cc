#include "graph/match.h"

#include <algorithm>
#include <cmath>

namespace headrace::match {
namespace {

// Constants are read whole to see that all elements agree.
constexpr int64_t kMaxScalarElements = 4096;
// Nodes that product() takes apart at most: chains may be long, and every node of one may ask.
constexpr int kMaxOpened = 16;

}  // namespace

const Node* of(Rewriter& graph, ValueId value, const Op& op) {
  const Node* node = graph.producer(value);
  return node != nullptr && node->op == &op ? node : nullptr;
}

const Node* single(Rewriter& graph, ValueId value, const Op& op) {
  return value != kNone && graph.num_uses(value) == 1 ? of(graph, value, op) : nullptr;
}

bool is_unary(const Node* node, ops::UnaryKind kind) {
  return node != nullptr && node->op == &ops::unary && node->attrs.as<ops::UnaryAttrs>().kind == kind;
}

bool is_binary(const Node* node, ops::BinaryKind kind) {
  return node != nullptr && node->op == &ops::binary && node->attrs.as<ops::BinaryAttrs>().kind == kind;
}

std::optional<double> scalar(Rewriter& graph, ValueId value) {
  if (value == kNone || !graph.is_constant(value) || graph.type(value).dtype != DType::f32) return std::nullopt;
  const int64_t elements = graph.type(value).shape.elements(Bindings());
  if (elements < 1 || elements > kMaxScalarElements) return std::nullopt;
  const HeldSpan<float> data = graph.value(value).constant<float>();
  if (!std::all_of(data.begin(), data.end(), [&](float x) { return x == data[0]; })) return std::nullopt;
  return static_cast<double>(data[0]);
}

bool is_scalar(Rewriter& graph, ValueId value, double number) {
  const auto found = scalar(graph, value);
  return found && *found == number;
}

bool near(double got, double want) { return std::abs(got - want) <= 1e-4 * std::abs(want); }

std::optional<WithNumber> with_number(Rewriter& graph, const Node* node, ops::BinaryKind kind) {
  if (!is_binary(node, kind)) return std::nullopt;
  const bool commutes = kind != ops::BinaryKind::sub && kind != ops::BinaryKind::div && kind != ops::BinaryKind::pow;
  for (int side = 0; side < (commutes ? 2 : 1); ++side) {
    const ValueId x = node->inputs[side];
    const auto number = scalar(graph, node->inputs[1 - side]);
    if (number && graph.type(x).shape == graph.type(node->outputs[0]).shape) return WithNumber{x, *number};
  }
  return std::nullopt;
}

ValueId other_input(const Node& node, ValueId value) {
  if (node.inputs[0] == node.inputs[1]) return kNone;
  if (node.inputs[0] == value) return node.inputs[1];
  return node.inputs[1] == value ? node.inputs[0] : kNone;
}

Product product(Rewriter& graph, ValueId value) {
  Product result;
  const Shape shape = graph.type(value).shape;
  std::vector<ValueId> open = {graph.resolve(value)};
  for (int opened = 0; !open.empty(); ++opened) {
    const ValueId next = open.back();
    open.pop_back();
    const bool inner = opened == 0 || (opened < kMaxOpened && graph.num_uses(next) == 1);
    const Node* node = inner ? graph.producer(next) : nullptr;
    // Taken apart only as far as the factors fit.
    const bool room = result.factors.size() + open.size() + 2 <= kMaxFactors;
    if (const auto scaled = with_number(graph, node, ops::BinaryKind::mul)) {
      result.coefficient *= scaled->number;
      open.push_back(scaled->x);
    } else if (const auto divided = with_number(graph, node, ops::BinaryKind::div); divided && divided->number != 0) {
      result.coefficient /= divided->number;
      open.push_back(divided->x);
    } else if (is_unary(node, ops::UnaryKind::neg)) {
      result.coefficient = -result.coefficient;
      open.push_back(node->inputs[0]);
    } else if (const auto power = with_number(graph, node, ops::BinaryKind::pow);
               power && (power->number == 2 || power->number == 3) &&
               result.factors.size() + open.size() + static_cast<size_t>(power->number) <= kMaxFactors) {
      open.insert(open.end(), static_cast<size_t>(power->number), power->x);
    } else if (is_binary(node, ops::BinaryKind::mul) && room && graph.type(node->inputs[0]).shape == shape &&
               graph.type(node->inputs[1]).shape == shape) {
      open.push_back(node->inputs[1]);
      open.push_back(node->inputs[0]);
    } else {
      result.factors.push_back(next);
    }
  }
  return result;
}

std::optional<Product> without(Product product, ValueId factor) {
  const auto found = std::find(product.factors.begin(), product.factors.end(), factor);
  if (found == product.factors.end()) return std::nullopt;
  product.factors.erase(found);
  return product;
}

std::optional<std::vector<double>> column_vector(Rewriter& graph, ValueId value, int64_t columns) {
  if (value == kNone || !graph.is_constant(value) || graph.type(value).dtype != DType::f32) return std::nullopt;
  const std::vector<int64_t> dims = graph.dims(value);
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] != 1 && (axis + 1 < dims.size() || dims[axis] != columns)) return std::nullopt;
  }
  std::vector<double> data = constant_values(graph.value(value));
  if (data.empty()) return std::nullopt;
  if (data.size() == 1) data.assign(static_cast<size_t>(columns), data[0]);
  return data;
}

}  // namespace headrace::match
