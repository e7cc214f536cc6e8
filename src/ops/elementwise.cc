#include "ops/elementwise.h"

#include <cmath>
#include <numbers>

#include "ops/input_check.h"

namespace headrace::ops {

std::string_view activation_name(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::silu:
      return "silu";
    case ActivationKind::gelu_erf:
      return "gelu_erf";
    case ActivationKind::gelu_tanh:
      return "gelu_tanh";
    case ActivationKind::relu:
      return "relu";
    case ActivationKind::softcap:
      return "softcap";
  }
  return "?";
}

Result<ActivationKind> parse_activation(std::string_view name) {
  if (name == "silu" || name == "swish") return ActivationKind::silu;
  if (name == "gelu") return ActivationKind::gelu_erf;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return ActivationKind::gelu_tanh;
  if (name == "relu") return ActivationKind::relu;
  return error(Code::unsupported,
               "hidden_act \"{}\" is not known; want silu, swish, gelu, gelu_pytorch_tanh, gelu_new or relu",
               name);
}

std::string ActivationAttrs::describe() const {
  std::string text(activation_name(kind));
  if (kind == ActivationKind::softcap) text += fmt::format(" cap={:g}", cap);
  return text;
}

namespace {

double activate(const ActivationAttrs& attrs, double x) {
  switch (attrs.kind) {
    case ActivationKind::silu:
      return x / (1.0 + std::exp(-x));
    case ActivationKind::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case ActivationKind::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case ActivationKind::relu:
      return x > 0 ? x : 0;
    case ActivationKind::softcap:
      return static_cast<double>(attrs.cap) * std::tanh(x / static_cast<double>(attrs.cap));
  }
  return 0;
}

Result<std::vector<ValueType>> infer_pair(std::string_view op, std::span<const ValueType> inputs,
                                          std::initializer_list<std::string_view> names) {
  InputCheck check(op, inputs, names);
  check.tensor(0, DType::f32, 2).tensor(1, DType::f32, 2).same_dim(1, 0, 0, 0).same_dim(1, 1, 0, 1);
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}
Result<std::vector<ValueType>> infer_add(std::span<const ValueType> inputs, const Attrs&) {
  return infer_pair("add", inputs, {"a", "b"});
}
Result<std::vector<ValueType>> infer_mul(std::span<const ValueType> inputs, const Attrs&) {
  return infer_pair("mul", inputs, {"a", "b"});
}
bool cap_fits(const Attrs& attrs) {
  const auto& a = attrs.as<ActivationAttrs>();
  return a.kind == ActivationKind::softcap ? a.cap > 0 : a.cap == 0;
}
Result<std::vector<ValueType>> infer_gated(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("gated_activation", inputs, {"gate", "up"});
  check.require(cap_fits(attrs), "cap must be above 0 for softcap, else 0");
  if (!check.ok()) return check.outputs({});
  return infer_pair("gated_activation", inputs, {"gate", "up"});
}
Result<std::vector<ValueType>> infer_activation(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("activation", inputs, {"x"});
  check.tensor(0, DType::f32, 2).require(cap_fits(attrs), "cap must be above 0 for softcap, else 0");
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}

Cost cost_of(const NodeSizes& sizes, double flops_per_element) {
  return {.flops = flops_per_element * static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)),
          .bytes = all_bytes(sizes)};
}
Cost cost_arithmetic(const NodeSizes& sizes) {
  return cost_of(sizes, 1);
}
// An exponential or a hyperbolic tangent is about 15 operations.
Cost cost_activation(const NodeSizes& sizes) {
  return cost_of(sizes, 18);
}

void reference_add(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    outputs[0].values[i] = inputs[0].tensor.values[i] + inputs[1].tensor.values[i];
  }
}
void reference_mul(const Attrs&, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    outputs[0].values[i] = inputs[0].tensor.values[i] * inputs[1].tensor.values[i];
  }
}
void reference_activation(const Attrs& attrs, std::span<const HostValue> inputs,
                          std::span<HostTensor> outputs) {
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    outputs[0].values[i] = activate(attrs.as<ActivationAttrs>(), inputs[0].tensor.values[i]);
  }
}
// mul(activation(gate), up)
void reference_gated(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  std::vector<HostValue> pair = {HostValue{outputs[0], nullptr}, inputs[1]};
  reference_activation(attrs, inputs.first(1), std::span(&pair[0].tensor, 1));
  reference_mul(attrs, pair, outputs);
}

Tolerance tolerance_exact(std::span<const ValueType>, const Attrs&) {
  return {.absolute = 0, .relative = 1.2e-7};
}
Tolerance tolerance_activation(std::span<const ValueType>, const Attrs&) {
  return {.absolute = 1e-6, .relative = 2e-6};
}

CaseInput rows(int64_t count, int64_t width, double scale = 1.0, bool strided = false) {
  return {.dims = {count, width}, .scale = scale, .strided = strided};
}

std::vector<OpCase> cases_pair() {
  const ElementwiseAttrs attrs;
  return {
      {.name = "one_element", .attrs = attrs, .inputs = {rows(1, 1), rows(1, 1)}},
      {.name = "odd_width", .attrs = attrs, .inputs = {rows(5, 37), rows(5, 37)}},
      {.name = "strided", .attrs = attrs, .inputs = {rows(3, 50, 1.0, true), rows(3, 50, 1.0, true)}},
      {.name = "empty", .attrs = attrs, .inputs = {rows(0, 8), rows(0, 8)}},
      {.name = "smollm2_prefill",
       .attrs = attrs,
       .inputs = {rows(512, 576), rows(512, 576)},
       .bench = true,
       .phase = "prefill"},
  };
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

constexpr ActivationAttrs kKinds[] = {{ActivationKind::silu},
                                      {ActivationKind::gelu_erf},
                                      {ActivationKind::gelu_tanh},
                                      {ActivationKind::relu},
                                      {ActivationKind::softcap, 2.5f}};

std::vector<OpCase> cases_activation() {
  std::vector<OpCase> cases;
  for (const ActivationAttrs& attrs : kKinds) {
    const std::string name(activation_name(attrs.kind));
    cases.push_back({.name = name + "_edges", .attrs = attrs, .inputs = {edge_values()}});
    cases.push_back({.name = name + "_strided", .attrs = attrs, .inputs = {rows(3, 50, 4.0, true)}});
    cases.push_back({.name = name + "_empty", .attrs = attrs, .inputs = {rows(0, 8)}});
    cases.push_back({.name = name + "_rows", .attrs = attrs, .inputs = {rows(7, 300, 3.0)}, .bench = true});
  }
  return cases;
}

std::vector<OpCase> cases_gated() {
  std::vector<OpCase> cases;
  for (const ActivationAttrs& attrs : kKinds) {
    const std::string name(activation_name(attrs.kind));
    cases.push_back({.name = name + "_odd_width", .attrs = attrs, .inputs = {rows(5, 37, 3.0), rows(5, 37)}});
    cases.push_back({.name = name + "_strided",
                     .attrs = attrs,
                     .inputs = {rows(3, 50, 3.0, true), rows(3, 50, 1.0, true)}});
  }
  const ActivationAttrs silu{ActivationKind::silu};
  cases.push_back({.name = "empty", .attrs = silu, .inputs = {rows(0, 8), rows(0, 8)}});
  cases.push_back({.name = "smollm2_decode",
                   .attrs = silu,
                   .inputs = {rows(1, 1536), rows(1, 1536)},
                   .bench = true,
                   .phase = "decode"});
  cases.push_back({.name = "smollm2_prefill",
                   .attrs = silu,
                   .inputs = {rows(512, 1536), rows(512, 1536)},
                   .bench = true,
                   .phase = "prefill"});
  return cases;
}

}  // namespace

const Op add{
    .name = "add",
    .infer = infer_add,
    .cost = cost_arithmetic,
    .reference = reference_add,
    .in_place = {{0, 0}, {0, 1}},
    .tolerance = tolerance_exact,
    .cases = cases_pair,
};

const Op mul{
    .name = "mul",
    .infer = infer_mul,
    .cost = cost_arithmetic,
    .reference = reference_mul,
    .in_place = {{0, 0}, {0, 1}},
    .tolerance = tolerance_exact,
    .cases = cases_pair,
};

const Op activation{
    .name = "activation",
    .infer = infer_activation,
    .cost = cost_activation,
    .reference = reference_activation,
    .in_place = {{0, 0}},
    .tolerance = tolerance_activation,
    .cases = cases_activation,
};

const Op gated_activation{
    .name = "gated_activation",
    .infer = infer_gated,
    .cost = cost_activation,
    .reference = reference_gated,
    .in_place = {{0, 0}, {0, 1}},
    .tolerance = tolerance_activation,
    .cases = cases_gated,
};

}  // namespace headrace::ops
