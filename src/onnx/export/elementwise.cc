// Functions of an element or two, comparisons, where and cast: in whichever order of axes the operands have.
#include <cmath>

#include "onnx/export/writer.h"
#include "onnx/tensor_proto.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/movement.h"

namespace headrace::onnx {

namespace {

using ops::BinaryKind;
using ops::UnaryKind;

// The operator of the same meaning that takes no attribute; empty for the others.
const char* plain_unary(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::relu: return "Relu";
    case UnaryKind::sigmoid: return "Sigmoid";
    case UnaryKind::hard_swish: return "HardSwish";
    case UnaryKind::softplus: return "Softplus";
    case UnaryKind::mish: return "Mish";
    case UnaryKind::tanh: return "Tanh";
    case UnaryKind::erf: return "Erf";
    case UnaryKind::exp: return "Exp";
    case UnaryKind::log: return "Log";
    case UnaryKind::sqrt: return "Sqrt";
    case UnaryKind::reciprocal: return "Reciprocal";
    case UnaryKind::neg: return "Neg";
    case UnaryKind::abs: return "Abs";
    case UnaryKind::floor: return "Floor";
    case UnaryKind::ceil: return "Ceil";
    case UnaryKind::round: return "Round";
    case UnaryKind::sign: return "Sign";
    case UnaryKind::sin: return "Sin";
    case UnaryKind::cos: return "Cos";
    case UnaryKind::leaky_relu:
    case UnaryKind::clip:
    case UnaryKind::hard_sigmoid:
    case UnaryKind::silu:
    case UnaryKind::gelu_erf:
    case UnaryKind::gelu_tanh:
    case UnaryKind::elu:
    case UnaryKind::softcap: break;
  }
  return "";
}

Status write_unary_node(NodeWriter& node) {
  const Order order = node.best_order();
  node.set(0, order, write_unary(node, node.attrs<ops::UnaryAttrs>(), node.input(0, order)));
  return {};
}

const char* operator_of(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::add: return "Add";
    case BinaryKind::sub: return "Sub";
    case BinaryKind::mul: return "Mul";
    case BinaryKind::div: return "Div";
    case BinaryKind::min: return "Min";
    case BinaryKind::max: return "Max";
    case BinaryKind::pow: return "Pow";
    case BinaryKind::prelu: return "PRelu";
  }
  return "";
}

Status write_binary(NodeWriter& node) {
  const BinaryKind kind = node.attrs<ops::BinaryAttrs>().kind;
  const Order order = node.best_order();
  const Wire a = node.model().spell_aligned(node.value(0), order), b = node.model().spell_aligned(node.value(1), order);
  if (kind == BinaryKind::prelu && node.dims(0) != node.output_dims()) {  // PRelu's slope may not be larger than x
    const Wire below = node.add("Less", {a, node.scalar(0.0f, "zero")});
    node.set(0, order, node.add("Where", {below, node.add("Mul", {a, b}), a}));
    return {};
  }
  node.set(0, order, node.add(operator_of(kind), {a, b}));
  return {};
}

const char* operator_of(ops::CompareKind kind, bool of_booleans) {
  switch (kind) {
    case ops::CompareKind::equal: return "Equal";
    case ops::CompareKind::not_equal: return of_booleans ? "Xor" : "";
    case ops::CompareKind::less: return "Less";
    case ops::CompareKind::less_or_equal: return "LessOrEqual";
    case ops::CompareKind::both: return "And";
    case ops::CompareKind::either: return "Or";
  }
  return "";
}

Status write_compare(NodeWriter& node) {
  const Order order = node.best_order();
  const std::string name = operator_of(node.attrs<ops::CompareAttrs>().kind, node.dtype(0) == DType::boolean);
  const Wire a = node.model().spell_aligned(node.value(0), order), b = node.model().spell_aligned(node.value(1), order);
  node.set(0, order, name.empty() ? node.add("Not", {node.add("Equal", {a, b})}) : node.add(name, {a, b}));
  return {};
}

Status write_where(NodeWriter& node) {
  const Order order = node.best_order();
  std::vector<Wire> inputs;
  for (const ValueId value : node.node().inputs) inputs.push_back(node.model().spell_aligned(value, order));
  node.set(0, order, node.add("Where", std::move(inputs)));
  return {};
}

Status write_cast(NodeWriter& node) {
  const Order order = node.best_order();
  const auto to = static_cast<int64_t>(dtype_number(node.attrs<ops::CastAttrs>().to));
  node.set(0, order, node.add("Cast", {node.input(0, order)}, {{"to", attribute(to)}}));
  return {};
}

constexpr ExportRow kRows[] = {
    {&ops::unary, write_unary_node}, {&ops::binary, write_binary}, {&ops::compare, write_compare}, {&ops::where, write_where},
    {&ops::cast, write_cast}};

}  // namespace

Wire write_unary(NodeWriter& node, const ops::UnaryAttrs& attrs, Wire x) {
  switch (attrs.kind) {
    case UnaryKind::leaky_relu: return node.add("LeakyRelu", {x}, {{"alpha", attribute(attrs.alpha)}});
    case UnaryKind::elu: return node.add("Elu", {x}, {{"alpha", attribute(attrs.alpha)}});
    case UnaryKind::hard_sigmoid:
      return node.add("HardSigmoid", {x}, {{"alpha", attribute(attrs.alpha)}, {"beta", attribute(attrs.beta)}});
    case UnaryKind::clip: {
      const Wire low = std::isinf(attrs.alpha) ? Wire::none : node.scalar(attrs.alpha, "min");
      const Wire high = std::isinf(attrs.beta) ? Wire::none : node.scalar(attrs.beta, "max");
      return node.add("Clip", {x, low, high});
    }
    case UnaryKind::silu:
      if (node.opset() >= 24) return node.add("Swish", {x});
      return node.add("Mul", {x, node.add("Sigmoid", {x})});
    case UnaryKind::gelu_erf: return node.add("Gelu", {x});
    case UnaryKind::gelu_tanh: return node.add("Gelu", {x}, {{"approximate", attribute(std::string("tanh"))}});
    case UnaryKind::softcap: {
      const Wire cap = node.scalar(attrs.alpha, "cap");
      return node.add("Mul", {node.add("Tanh", {node.add("Div", {x, cap})}), cap});
    }
    default: return node.add(plain_unary(attrs.kind), {x});
  }
}

Wire write_epilogue(NodeWriter& node, const ops::Epilogue& epilogue, int first, const Order& order, Wire product) {
  Wire y = product;
  if (epilogue.residual) y = node.add("Add", {y, node.input(first + int{epilogue.bias}, order)});
  return epilogue.activation ? write_unary(node, *epilogue.activation, y) : y;
}

std::span<const ExportRow> export_elementwise() { return kRows; }

}  // namespace headrace::onnx
