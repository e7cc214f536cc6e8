// Activations that exporters spell with simpler operators become one unary: GELU in both forms, SiLU, Mish, hard swish, hard sigmoid,
// softplus, clip, ReLU and leaky ReLU. Factors may come in any order and grouping; constants are compared with float32's tolerance.
#include <cmath>
#include <limits>
#include <numbers>

#include "graph/match.h"
#include "graph/passes.h"

namespace headrace::passes {
namespace {

using match::Product;
using ops::BinaryKind;
using ops::UnaryAttrs;
using ops::UnaryKind;

// The argument of a unary of `kind` that nothing else reads; kNone for anything else.
ValueId argument_of(Rewriter& graph, ValueId value, UnaryKind kind) {
  const Node* node = match::single(graph, value, ops::unary);
  return match::is_unary(node, kind) ? node->inputs[0] : kNone;
}

// x of `value` = x + number, which nothing else reads.
ValueId plus_number(Rewriter& graph, ValueId value, double number) {
  const auto sum = match::with_number(graph, match::single(graph, value, ops::binary), BinaryKind::add);
  return sum && match::near(sum->number, number) ? sum->x : kNone;
}

// Whether `value` is coefficient * x^power.
bool is_power(Rewriter& graph, ValueId value, double coefficient, ValueId x, size_t power) {
  const Product product = match::product(graph, value);
  return product.factors == std::vector<ValueId>(power, x) && match::near(product.coefficient, coefficient);
}

constexpr double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

// Whether `value` is sqrt(2 / pi) * (x + 0.044715 * x^3).
bool is_gelu_tanh_argument(Rewriter& graph, ValueId value, ValueId x) {
  const Product product = match::product(graph, value);
  if (!match::near(product.coefficient, kTanhScale)) return false;
  if (product.factors.size() == 2) {  // x * (1 + 0.044715 * x * x)
    const auto rest = match::without(product, x);
    if (!rest) return false;
    const ValueId square = plus_number(graph, rest->factors[0], 1);
    return square != kNone && is_power(graph, square, kTanhCubic, x, 2);
  }
  if (product.factors.size() != 1) return false;
  const Node* sum = match::single(graph, product.factors[0], ops::binary);
  if (!match::is_binary(sum, BinaryKind::add)) return false;
  const ValueId cube = match::other_input(*sum, x);
  return cube != kNone && is_power(graph, cube, kTanhCubic, x, 3);
}

// The GELU whose x times `sum`, with `coefficient`, is `coefficient` * x * sum: 0.5 * x * (1 + erf(x / sqrt 2)), or with the half inside
// the sum.
std::optional<UnaryAttrs> gelu(Rewriter& graph, double coefficient, ValueId x, ValueId sum) {
  ValueId bell = plus_number(graph, sum, 1);
  if (bell == kNone) {
    const ValueId half = plus_number(graph, sum, 0.5);
    if (half == kNone || graph.num_uses(half) != 1) return std::nullopt;
    const Product product = match::product(graph, half);
    if (product.factors.size() != 1 || !match::near(product.coefficient, 0.5)) return std::nullopt;
    bell = product.factors[0];
    coefficient /= 2;
  }
  if (!match::near(coefficient, 0.5)) return std::nullopt;
  if (const ValueId erf = argument_of(graph, bell, UnaryKind::erf); erf != kNone) {
    if (is_power(graph, erf, std::numbers::sqrt2 / 2, x, 1)) return UnaryAttrs{UnaryKind::gelu_erf};
  }
  if (const ValueId tanh = argument_of(graph, bell, UnaryKind::tanh); tanh != kNone) {
    if (is_gelu_tanh_argument(graph, tanh, x)) return UnaryAttrs{UnaryKind::gelu_tanh};
  }
  return std::nullopt;
}

bool is_clip(const UnaryAttrs& attrs, float low, float high) {
  return attrs.kind == UnaryKind::clip && attrs.alpha == low && attrs.beta == high;
}

// The function f with f(x) = coefficient * x * gate, where `gate` is a function of x.
std::optional<UnaryAttrs> gated(Rewriter& graph, double coefficient, ValueId x, ValueId gate) {
  const Node* node = match::single(graph, gate, ops::unary);
  if (node == nullptr) return gelu(graph, coefficient, x, gate);
  const auto& attrs = node->attrs.as<UnaryAttrs>();
  const ValueId argument = node->inputs[0];
  if (is_clip(attrs, 0, 6) && match::near(coefficient, 1.0 / 6) && plus_number(graph, argument, 3) == x) {
    return UnaryAttrs{UnaryKind::hard_swish};
  }
  if (coefficient != 1) return std::nullopt;
  if (attrs.kind == UnaryKind::sigmoid && argument == x) return UnaryAttrs{UnaryKind::silu};
  if (attrs.kind == UnaryKind::hard_sigmoid && argument == x && match::near(attrs.alpha, 1.0 / 6) && attrs.beta == 0.5f) {
    return UnaryAttrs{UnaryKind::hard_swish};
  }
  if (attrs.kind == UnaryKind::tanh && argument_of(graph, argument, UnaryKind::softplus) == x) return UnaryAttrs{UnaryKind::mish};
  return std::nullopt;
}

struct Fused {
  UnaryAttrs attrs;
  ValueId x;
};

std::optional<Fused> from_product(Rewriter& graph, const Node& node) {
  const Product product = match::product(graph, node.outputs[0]);
  const std::vector<ValueId>& factors = product.factors;
  if (factors.size() == 2) {
    for (int side = 0; side < 2; ++side) {
      if (const auto found = gated(graph, product.coefficient, factors[side], factors[1 - side])) return Fused{*found, factors[side]};
    }
  }
  if (factors.size() != 1 || !match::near(product.coefficient, 1.0 / 6)) return std::nullopt;
  const Node* clip = match::single(graph, factors[0], ops::unary);
  if (clip == nullptr || !is_clip(clip->attrs.as<UnaryAttrs>(), 0, 6)) return std::nullopt;
  const ValueId x = plus_number(graph, clip->inputs[0], 3);
  if (x == kNone) return std::nullopt;
  return Fused{{UnaryKind::hard_sigmoid, static_cast<float>(1.0 / 6), 0.5f}, x};
}

// 1 / (1 + exp(-x)), given 1 + exp(-x).
std::optional<Fused> sigmoid_below(Rewriter& graph, ValueId sum) {
  const ValueId power = plus_number(graph, sum, 1);
  const ValueId negative = power == kNone ? kNone : argument_of(graph, power, UnaryKind::exp);
  const ValueId x = negative == kNone ? kNone : argument_of(graph, negative, UnaryKind::neg);
  if (x == kNone) return std::nullopt;
  return Fused{{UnaryKind::sigmoid}, x};
}

std::optional<Fused> from_unary(Rewriter& graph, const Node& node) {
  const UnaryKind kind = node.attrs.as<UnaryAttrs>().kind;
  if (kind == UnaryKind::reciprocal) return sigmoid_below(graph, node.inputs[0]);
  if (kind != UnaryKind::log) return std::nullopt;
  const ValueId power = plus_number(graph, node.inputs[0], 1);
  const ValueId x = power == kNone ? kNone : argument_of(graph, power, UnaryKind::exp);
  if (x == kNone) return std::nullopt;
  return Fused{{UnaryKind::softplus}, x};
}

// max(x, low), perhaps of min(y, high).
std::optional<Fused> from_max(Rewriter& graph, const Node& node) {
  if (const auto bound = match::with_number(graph, &node, BinaryKind::max)) {
    const auto upper = match::with_number(graph, match::single(graph, bound->x, ops::binary), BinaryKind::min);
    if (upper && bound->number <= upper->number) {
      return Fused{{UnaryKind::clip, static_cast<float>(bound->number), static_cast<float>(upper->number)}, upper->x};
    }
    if (bound->number == 0) return Fused{{UnaryKind::relu}, bound->x};
    return std::nullopt;
  }
  for (int side = 0; side < 2; ++side) {  // max(x, slope * x)
    const ValueId x = node.inputs[side], sloped = node.inputs[1 - side];
    if (graph.num_uses(sloped) != 1 || graph.type(x).shape != graph.type(sloped).shape) continue;
    const Product product = match::product(graph, sloped);
    if (product.factors == std::vector{x} && product.coefficient >= 0 && product.coefficient < 1) {
      return Fused{{UnaryKind::leaky_relu, static_cast<float>(product.coefficient)}, x};
    }
  }
  return std::nullopt;
}

// min(max(y, low), high), where the max may be a ReLU by now.
std::optional<Fused> from_min(Rewriter& graph, const Node& node) {
  const auto upper = match::with_number(graph, &node, BinaryKind::min);
  if (!upper) return std::nullopt;
  const auto high = static_cast<float>(upper->number);
  const auto lower = match::with_number(graph, match::single(graph, upper->x, ops::binary), BinaryKind::max);
  if (lower && lower->number <= upper->number) return Fused{{UnaryKind::clip, static_cast<float>(lower->number), high}, lower->x};
  const ValueId x = argument_of(graph, upper->x, UnaryKind::relu);
  if (x == kNone || high < 0) return std::nullopt;
  return Fused{{UnaryKind::clip, 0, high}, x};
}

std::optional<Fused> fused(Rewriter& graph, const Node& node) {
  if (node.op == &ops::unary) return from_unary(graph, node);
  if (node.op != &ops::binary) return std::nullopt;
  switch (node.attrs.as<ops::BinaryAttrs>().kind) {
    case BinaryKind::max: return from_max(graph, node);
    case BinaryKind::min: return from_min(graph, node);
    case BinaryKind::div:
      if (match::is_scalar(graph, node.inputs[0], 1)) return sigmoid_below(graph, node.inputs[1]);
      return from_product(graph, node);
    case BinaryKind::mul: return from_product(graph, node);
    default: return std::nullopt;
  }
}

ValueId replacement(Rewriter& graph, const Node& node) {
  const std::optional<Fused> found = fused(graph, node);
  // A number that has the dims of the whole may have made them.
  if (!found || graph.dims(found->x) != graph.dims(node.outputs[0])) return kNone;
  return graph.add(ops::unary, found->attrs, {found->x}, node.name);
}

Result<int> run(Graph& graph, const PassOptions&) { return rewrite_each(graph, replacement); }

}  // namespace

extern const Pass fuse_activations_pass;
const Pass fuse_activations_pass = {"fuse_activations", "Makes one activation of the operators that spell it.", run};

}  // namespace headrace::passes
