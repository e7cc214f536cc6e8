#include "ops/unary.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/input_check.h"
#include "ops/shapes.h"

namespace headrace::ops {
namespace {

// Which parameters a function has.
enum class Has : uint8_t { none, alpha, both };

struct KindRow {
  UnaryKind kind;
  std::string_view name;
  Has has = Has::none;
};
constexpr KindRow kKinds[] = {
    {UnaryKind::relu, "relu"},
    {UnaryKind::leaky_relu, "leaky_relu", Has::alpha},
    {UnaryKind::clip, "clip", Has::both},
    {UnaryKind::sigmoid, "sigmoid"},
    {UnaryKind::hard_sigmoid, "hard_sigmoid", Has::both},
    {UnaryKind::silu, "silu"},
    {UnaryKind::hard_swish, "hard_swish"},
    {UnaryKind::gelu_erf, "gelu_erf"},
    {UnaryKind::gelu_tanh, "gelu_tanh"},
    {UnaryKind::elu, "elu", Has::alpha},
    {UnaryKind::softplus, "softplus"},
    {UnaryKind::mish, "mish"},
    {UnaryKind::softcap, "softcap", Has::alpha},
    {UnaryKind::tanh, "tanh"},
    {UnaryKind::erf, "erf"},
    {UnaryKind::exp, "exp"},
    {UnaryKind::log, "log"},
    {UnaryKind::sqrt, "sqrt"},
    {UnaryKind::reciprocal, "reciprocal"},
    {UnaryKind::neg, "neg"},
    {UnaryKind::abs, "abs"},
    {UnaryKind::floor, "floor"},
    {UnaryKind::ceil, "ceil"},
    {UnaryKind::round, "round"},
    {UnaryKind::sign, "sign"},
    {UnaryKind::sin, "sin"},
    {UnaryKind::cos, "cos"},
};
const KindRow& row_of(UnaryKind kind) {
  const KindRow& row = kKinds[static_cast<size_t>(kind)];
  CHECK(row.kind == kind);
  return row;
}

double softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

}  // namespace

std::string_view unary_name(UnaryKind kind) { return row_of(kind).name; }

Result<UnaryKind> parse_hidden_act(std::string_view name) {
  if (name == "silu" || name == "swish") return UnaryKind::silu;
  if (name == "gelu") return UnaryKind::gelu_erf;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return UnaryKind::gelu_tanh;
  if (name == "relu") return UnaryKind::relu;
  return error(Code::unsupported,
               "hidden_act \"{}\" is not known; want silu, swish, gelu, gelu_pytorch_tanh, gelu_new or relu",
               name);
}

std::string UnaryAttrs::describe() const {
  const KindRow& row = row_of(kind);
  std::string text(row.name);
  if (row.has != Has::none) text += fmt::format(" alpha={:g}", alpha);
  if (row.has == Has::both) text += fmt::format(" beta={:g}", beta);
  return text;
}

double apply_unary(const UnaryAttrs& attrs, double x) {
  const auto a = static_cast<double>(attrs.alpha), b = static_cast<double>(attrs.beta);
  switch (attrs.kind) {
    case UnaryKind::relu: return x < 0 ? 0 : x;
    case UnaryKind::leaky_relu: return x < 0 ? a * x : x;
    case UnaryKind::clip: return std::isnan(x) ? x : std::fmin(std::fmax(x, a), b);
    case UnaryKind::sigmoid: return 1.0 / (1.0 + std::exp(-x));
    case UnaryKind::hard_sigmoid: return std::isnan(x) ? x : std::fmin(std::fmax(a * x + b, 0.0), 1.0);
    case UnaryKind::silu: return x / (1.0 + std::exp(-x));
    case UnaryKind::hard_swish: return std::isnan(x) ? x : x * std::fmin(std::fmax(x / 6 + 0.5, 0.0), 1.0);
    case UnaryKind::gelu_erf: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case UnaryKind::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case UnaryKind::elu: return x < 0 ? a * std::expm1(x) : x;
    case UnaryKind::softplus: return softplus(x);
    case UnaryKind::mish: return x * std::tanh(softplus(x));
    case UnaryKind::softcap: return a * std::tanh(x / a);
    case UnaryKind::tanh: return std::tanh(x);
    case UnaryKind::erf: return std::erf(x);
    case UnaryKind::exp: return std::exp(x);
    case UnaryKind::log: return std::log(x);
    case UnaryKind::sqrt: return std::sqrt(x);
    case UnaryKind::reciprocal: return 1.0 / x;
    case UnaryKind::neg: return -x;
    case UnaryKind::abs: return std::fabs(x);
    case UnaryKind::floor: return std::floor(x);
    case UnaryKind::ceil: return std::ceil(x);
    case UnaryKind::round: return std::nearbyint(x);
    case UnaryKind::sign: return x > 0 ? 1 : x < 0 ? -1 : x;
    case UnaryKind::sin: return std::sin(x);
    case UnaryKind::cos: return std::cos(x);
  }
  return 0;
}

std::string_view wrong_parameters(const UnaryAttrs& attrs) {
  const Has has = row_of(attrs.kind).has;
  if (std::isnan(attrs.alpha) || std::isnan(attrs.beta)) return "alpha and beta must be numbers";
  if (has == Has::none && attrs.alpha != 0) return "alpha must be 0 for a function without it";
  if (has != Has::both && attrs.beta != 0) return "beta must be 0 for a function without it";
  if (attrs.kind == UnaryKind::softcap && !(attrs.alpha > 0)) return "alpha must be above 0 for softcap";
  return {};
}

namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("unary", inputs, {"x"});
  const std::string_view wrong = wrong_parameters(attrs.as<UnaryAttrs>());
  check.tensor(0, DType::f32).require(wrong.empty(), wrong);
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}

// An exponential or a hyperbolic tangent is about 15 operations, and most functions have one.
double operations(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::relu:
    case UnaryKind::neg:
    case UnaryKind::abs:
    case UnaryKind::sqrt:
    case UnaryKind::reciprocal: return 1;
    case UnaryKind::leaky_relu:
    case UnaryKind::clip:
    case UnaryKind::floor:
    case UnaryKind::ceil:
    case UnaryKind::round:
    case UnaryKind::sign: return 2;
    case UnaryKind::hard_sigmoid:
    case UnaryKind::hard_swish: return 5;
    default: return 18;
  }
}
Cost cost(const NodeSizes& sizes) {
  return {.flops = operations(sizes.attrs.as<UnaryAttrs>().kind) *
                   static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)),
          .bytes = all_bytes(sizes)};
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    outputs[0].values[i] = in_float32(apply_unary(attrs.as<UnaryAttrs>(), inputs[0].tensor.values[i]));
  }
}

Tolerance tolerance(std::span<const ValueType>, const Attrs& attrs) {
  switch (attrs.as<UnaryAttrs>().kind) {
    case UnaryKind::relu:
    case UnaryKind::clip:
    case UnaryKind::neg:
    case UnaryKind::abs:
    case UnaryKind::floor:
    case UnaryKind::ceil:
    case UnaryKind::round:
    case UnaryKind::sign: return {.absolute = 0, .relative = 0};
    case UnaryKind::leaky_relu: return {.absolute = 0, .relative = 1.2e-7};
    case UnaryKind::sqrt:
    case UnaryKind::reciprocal:  // subnormal results keep fewer digits
    case UnaryKind::exp:
    case UnaryKind::log: return {.absolute = 2e-45, .relative = 4e-7};
    default: return {.absolute = 1e-6, .relative = 2e-6};
  }
}

CaseInput filled(std::vector<int64_t> dims, double scale = 1.0, bool strided = false) {
  return {.dims = std::move(dims), .scale = scale, .strided = strided};
}

// Values around every branch of the approximations, both signs, the ends of the range and the special ones.
CaseInput edge_values() {
  CaseInput input{.dims = {2, 23}};
  input.values = {0.0,  -0.0, 1e-30, 1e-5,  0.3,   0.624, 0.626, 1.0,   2.0,   4.0,  8.0,  20.0,
                  60.0, 87.0, 88.5,  200.0, 1e4,   1e30,  -1e-5, -0.3,  -1.0,  -2.0, -3.0, -4.0,
                  -5.0, -6.0, -8.0,  -10.,  -12.0, -15.,  -20.,  -40.0, -60.0, -80., -86., -87.5,
                  -90., -1e3, -1e10, 5.5,   -5.5,  0.75,  -0.75, 3.3,   -3.3,  12.0};
  return input;
}
// Halves, the ends of float's integers, and what is no number or has no end.
CaseInput special_values() {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  CaseInput input{.dims = {3, 8}};
  input.values = {kNan, kInfinity, -kInfinity, 0.5, -0.5, 1.5, 2.5, -2.5, 8388607.5, -8388607.5, 8388609.0, 16777216.0,
                  1.1754944e-38, 3.4028235e38, -3.4028235e38, 88.72, -103.0, 0.9999999, 1.0000001, 1e-40, 0.89, 0.91, -0.91, 19.99};
  return input;
}

UnaryAttrs with_parameters(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::leaky_relu: return {kind, 0.01f};
    case UnaryKind::clip: return {kind, -1.5f, 6.0f};
    case UnaryKind::hard_sigmoid: return {kind, 0.2f, 0.5f};
    case UnaryKind::elu: return {kind, 0.7f};
    case UnaryKind::softcap: return {kind, 2.5f};
    default: return {kind};
  }
}

// What has no limit at infinity, or 0 times infinity there, is not asked about it.
bool takes_special_values(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::silu:
    case UnaryKind::hard_swish:
    case UnaryKind::gelu_erf:
    case UnaryKind::gelu_tanh:
    case UnaryKind::mish: return false;
    default: return true;
  }
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const KindRow& row : kKinds) {
    const std::string name(row.name);
    const UnaryAttrs attrs = with_parameters(row.kind);
    all.push_back({.name = name + "_edges", .attrs = attrs, .inputs = {edge_values()}});
    if (takes_special_values(row.kind)) {
      all.push_back({.name = name + "_special", .attrs = attrs, .inputs = {special_values()}});
    }
    all.push_back({.name = name + "_strided", .attrs = attrs, .inputs = {filled({3, 50}, 4.0, true)}});
    all.push_back({.name = name + "_rows", .attrs = attrs, .inputs = {filled({7, 300}, 3.0)}, .bench = true});
  }
  const UnaryAttrs silu{UnaryKind::silu}, gelu{UnaryKind::gelu_erf};
  all.push_back({.name = "empty", .attrs = silu, .inputs = {filled({0, 8})}});
  all.push_back({.name = "no_axes", .attrs = silu, .inputs = {filled({})}});
  all.push_back({.name = "one_axis", .attrs = silu, .inputs = {filled({21})}});
  all.push_back({.name = "four_axes", .attrs = silu, .inputs = {filled({2, 3, 5, 37})}});
  all.push_back({.name = "bert_mlp", .attrs = gelu, .inputs = {filled({1024, 3072})}, .bench = true, .phase = "prefill"});
  all.push_back({.name = "mobilenet_relu6",
                 .attrs = UnaryAttrs{UnaryKind::clip, 0.0f, 6.0f},
                 .inputs = {filled({8, 112, 112, 96}, 3.0)},
                 .bench = true});
  return all;
}

}  // namespace

const Op unary{
    .name = "unary",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .in_place = {{0, 0}},
    .tolerance = tolerance,
    .cases = cases,
};

}  // namespace headrace::ops
