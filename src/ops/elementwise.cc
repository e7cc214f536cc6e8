#include "ops/elementwise.h"

#include "ops/input_check.h"

namespace headrace::ops {

namespace {

Result<std::vector<ValueType>> infer_pair(std::string_view op, std::span<const ValueType> inputs,
                                          std::initializer_list<std::string_view> names) {
  InputCheck check(op, inputs, names);
  check.activations(0, 2).same_type(1, 0);
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}
Result<std::vector<ValueType>> infer_add(std::span<const ValueType> inputs, const Attrs&) {
  return infer_pair("add", inputs, {"a", "b"});
}
Result<std::vector<ValueType>> infer_mul(std::span<const ValueType> inputs, const Attrs&) {
  return infer_pair("mul", inputs, {"a", "b"});
}
Result<std::vector<ValueType>> infer_gated(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("gated_activation", inputs, {"gate", "up"});
  const std::string_view wrong = wrong_parameters(attrs.as<UnaryAttrs>());
  check.require(wrong.empty(), wrong);
  if (!check.ok()) return check.outputs({});
  return infer_pair("gated_activation", inputs, {"gate", "up"});
}

Cost cost_of(const NodeSizes& sizes, double flops_per_element) {
  return {.flops = flops_per_element * static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)),
          .bytes = all_bytes(sizes)};
}
Cost cost_arithmetic(const NodeSizes& sizes) {
  return cost_of(sizes, 1);
}
// An exponential or a hyperbolic tangent is about 15 operations.
Cost cost_gated(const NodeSizes& sizes) {
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
void reference_gated(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  for (size_t i = 0; i < outputs[0].values.size(); ++i) {
    outputs[0].values[i] = apply_unary(attrs.as<UnaryAttrs>(), inputs[0].tensor.values[i]) * inputs[1].tensor.values[i];
  }
}

Tolerance tolerance_exact(std::span<const ValueType> inputs, const Attrs&) {
  return rounded_to(inputs[0].dtype, {.absolute = 0, .relative = 1.2e-7});
}
Tolerance tolerance_gated(std::span<const ValueType> inputs, const Attrs&) {
  return rounded_to(inputs[0].dtype, {.absolute = 1e-6, .relative = 2e-6});
}

CaseInput bf16_rows(int64_t count, int64_t width, bool strided = false) {
  return {.dtype = DType::bf16, .dims = {count, width}, .strided = strided};
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
      {.name = "bf16", .attrs = attrs, .inputs = {bf16_rows(3, 128), bf16_rows(3, 128, true)}},
      {.name = "smollm2_prefill",
       .attrs = attrs,
       .inputs = {rows(512, 576), rows(512, 576)},
       .bench = true,
       .phase = "prefill"},
  };
}

// What language models have.
constexpr UnaryAttrs kKinds[] = {{UnaryKind::silu},
                                 {UnaryKind::gelu_erf},
                                 {UnaryKind::gelu_tanh},
                                 {UnaryKind::relu},
                                 {UnaryKind::softcap, 2.5f}};

std::vector<OpCase> cases_gated() {
  std::vector<OpCase> cases;
  for (const UnaryAttrs& attrs : kKinds) {
    const std::string name(unary_name(attrs.kind));
    cases.push_back({.name = name + "_odd_width", .attrs = attrs, .inputs = {rows(5, 37, 3.0), rows(5, 37)}});
    cases.push_back({.name = name + "_strided",
                     .attrs = attrs,
                     .inputs = {rows(3, 50, 3.0, true), rows(3, 50, 1.0, true)}});
  }
  const UnaryAttrs silu{UnaryKind::silu};
  cases.push_back({.name = "bf16", .attrs = silu, .inputs = {bf16_rows(5, 37), bf16_rows(5, 37)}});
  cases.push_back({.name = "bf16_strided", .attrs = silu, .inputs = {bf16_rows(3, 1024, true), bf16_rows(3, 1024, true)}});
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

const Op gated_activation{
    .name = "gated_activation",
    .infer = infer_gated,
    .cost = cost_gated,
    .reference = reference_gated,
    .in_place = {{0, 0}, {0, 1}},
    .tolerance = tolerance_gated,
    .cases = cases_gated,
};

}  // namespace headrace::ops
