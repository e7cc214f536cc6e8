// Functions of one and of two elements, casts and choices.
#include <algorithm>
#include <limits>

#include "onnx/lower.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/unary.h"

namespace headrace::onnx {
namespace {

using ops::BinaryKind;
using ops::CompareKind;
using ops::UnaryKind;

bool to_unary(LowerContext& context, ops::UnaryAttrs attrs) {
  if (context.dtype(0) != DType::f32) return false;
  context.set(0, context.emit(ops::unary, attrs, {context.input(0)}));
  return true;
}

template <UnaryKind kind>
bool plain(LowerContext& context) {
  return to_unary(context, {kind});
}

// The operator's attributes alpha and beta, or what stands for them.
template <UnaryKind kind>
bool with_alpha(LowerContext& context, float alpha, float beta = 0) {
  const Result<float> a = context.number("alpha", alpha), b = context.number("beta", beta);
  return a && b && to_unary(context, {kind, *a, *b});
}
bool leaky_relu(LowerContext& context) { return with_alpha<UnaryKind::leaky_relu>(context, 0.01f); }
bool elu(LowerContext& context) { return with_alpha<UnaryKind::elu>(context, 1.0f); }
bool hard_sigmoid(LowerContext& context) { return with_alpha<UnaryKind::hard_sigmoid>(context, 0.2f, 0.5f); }

bool swish(LowerContext& context) {
  const Result<float> alpha = context.number("alpha", 1.0f);
  return alpha && *alpha == 1.0f && to_unary(context, {UnaryKind::silu});
}

bool gelu(LowerContext& context) {
  const Result<std::string> approximate = context.text("approximate", "none");
  return approximate && to_unary(context, {*approximate == "tanh" ? UnaryKind::gelu_tanh : UnaryKind::gelu_erf});
}

bool clip(LowerContext& context) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::optional<float> low = -kInfinity, high = kInfinity;
  if (context.opset() < 11) {
    const Result<float> min = context.number("min", -kInfinity), max = context.number("max", kInfinity);
    if (!min || !max) return false;
    low = *min;
    high = *max;
  } else {
    if (context.has_input(1)) low = context.scalar(1);
    if (context.has_input(2)) high = context.scalar(2);
  }
  return low && high && to_unary(context, {UnaryKind::clip, *low, *high});
}

bool identity(LowerContext& context) {
  context.set(0, context.input(0));
  return true;
}

bool dropout(LowerContext& context) {
  if (context.wants_output(1)) return context.decline("its mask is read");
  if (context.has_input(2)) {
    const Tensor* training = context.constant(2);
    if (training == nullptr || training->dtype() != DType::boolean || training->elements() != 1 || *training->data<bool>()) return false;
  }
  return identity(context);
}

template <BinaryKind kind>
bool pair(LowerContext& context) {
  if (!context.all_f32()) return false;
  context.set(0, context.emit(ops::binary, ops::BinaryAttrs{kind}, {context.input(0), context.input(1)}));
  return true;
}

template <CompareKind kind, bool swapped = false>
bool compare(LowerContext& context) {
  if (context.dtype(0) == DType::string) return false;
  const ValueId a = context.input(swapped ? 1 : 0), b = context.input(swapped ? 0 : 1);
  context.set(0, context.emit(ops::compare, ops::CompareAttrs{kind}, {a, b}));
  return true;
}

bool logical_not(LowerContext& context) {
  const ValueId yes = context.builder().graph.add_constant("true", DType::boolean, {}, {1.0});
  context.set(0, context.emit(ops::compare, ops::CompareAttrs{CompareKind::not_equal}, {context.input(0), yes}));
  return true;
}

// Of one or more operands, from the left.
template <BinaryKind kind>
ValueId fold(LowerContext& context) {
  ValueId value = context.input(0);
  for (int i = 1; i < context.num_inputs(); ++i) value = context.emit(ops::binary, ops::BinaryAttrs{kind}, {value, context.input(i)});
  return value;
}
template <BinaryKind kind>
bool variadic(LowerContext& context) {
  if (!context.all_f32()) return false;
  context.set(0, fold<kind>(context));
  return true;
}
bool mean(LowerContext& context) {
  if (!context.all_f32()) return false;
  const ValueId share = context.constant_f32({}, {1.0 / context.num_inputs()});
  context.set(0, context.emit(ops::binary, ops::BinaryAttrs{BinaryKind::mul}, {fold<BinaryKind::add>(context), share}));
  return true;
}

// The slope goes to the right of the channels: unidirectional, as numpy's rule has it.
bool prelu(LowerContext& context) { return goes_into(context.dims(1), context.dims(0)) && pair<BinaryKind::prelu>(context); }

bool where(LowerContext& context) {
  if (context.dtype(0) != DType::boolean || context.dtype(1) != context.dtype(2)) return false;
  context.set(0, context.emit(ops::where, ops::WhereAttrs{}, {context.input(0), context.input(1), context.input(2)}));
  return true;
}

bool castable(DType dtype) {
  static constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64,    DType::i8,
                                     DType::u8,  DType::i32, DType::i64,  DType::boolean};
  return std::ranges::find(kTypes, dtype) != std::end(kTypes);
}
bool cast(LowerContext& context) {
  const DType to = context.output_dtype(0);
  if (!castable(context.dtype(0)) || !castable(to)) return false;
  if (to == context.dtype(0)) return identity(context);
  context.set(0, context.emit(ops::cast, ops::CastAttrs{to}, {context.input(0)}));
  return true;
}

constexpr LowerRow kRows[] = {
    {"Abs", plain<UnaryKind::abs>},
    {"Add", pair<BinaryKind::add>},
    {"And", compare<CompareKind::both>},
    {"Cast", cast},
    {"CastLike", cast},
    {"Ceil", plain<UnaryKind::ceil>},
    {"Clip", clip},
    {"Cos", plain<UnaryKind::cos>},
    {"Div", pair<BinaryKind::div>},
    {"Dropout", dropout},
    {"Elu", elu},
    {"Equal", compare<CompareKind::equal>},
    {"Erf", plain<UnaryKind::erf>},
    {"Exp", plain<UnaryKind::exp>},
    {"Floor", plain<UnaryKind::floor>},
    {"Gelu", gelu},
    {"Greater", compare<CompareKind::less, true>},
    {"GreaterOrEqual", compare<CompareKind::less_or_equal, true>},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", plain<UnaryKind::hard_swish>},
    {"Identity", identity},
    {"LeakyRelu", leaky_relu},
    {"Less", compare<CompareKind::less>},
    {"LessOrEqual", compare<CompareKind::less_or_equal>},
    {"Log", plain<UnaryKind::log>},
    {"Max", variadic<BinaryKind::max>},
    {"Mean", mean},
    {"Min", variadic<BinaryKind::min>},
    {"Mish", plain<UnaryKind::mish>},
    {"Mul", pair<BinaryKind::mul>},
    {"Neg", plain<UnaryKind::neg>},
    {"Not", logical_not},
    {"Or", compare<CompareKind::either>},
    {"PRelu", prelu},
    {"Pow", pair<BinaryKind::pow>},
    {"Reciprocal", plain<UnaryKind::reciprocal>},
    {"Relu", plain<UnaryKind::relu>},
    {"Round", plain<UnaryKind::round>},
    {"Sigmoid", plain<UnaryKind::sigmoid>},
    {"Sign", plain<UnaryKind::sign>},
    {"Sin", plain<UnaryKind::sin>},
    {"Softplus", plain<UnaryKind::softplus>},
    {"Sqrt", plain<UnaryKind::sqrt>},
    {"Sub", pair<BinaryKind::sub>},
    {"Sum", variadic<BinaryKind::add>},
    {"Swish", swish},
    {"Tanh", plain<UnaryKind::tanh>},
    {"Where", where},
    {"Xor", compare<CompareKind::not_equal>},
};

}  // namespace

std::span<const LowerRow> lower_elementwise();
std::span<const LowerRow> lower_elementwise() { return kRows; }

}  // namespace headrace::onnx
