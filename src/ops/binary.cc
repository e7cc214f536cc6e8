#include "ops/binary.h"

#include <cmath>
#include <limits>

#include "ops/input_check.h"
#include "ops/shapes.h"

namespace headrace::ops {

std::string_view binary_name(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::add: return "add";
    case BinaryKind::sub: return "sub";
    case BinaryKind::mul: return "mul";
    case BinaryKind::div: return "div";
    case BinaryKind::min: return "min";
    case BinaryKind::max: return "max";
    case BinaryKind::pow: return "pow";
    case BinaryKind::prelu: return "prelu";
  }
  return "?";
}

std::string BinaryAttrs::describe() const { return std::string(binary_name(kind)); }

namespace {

Result<std::vector<ValueType>> infer(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("binary", inputs, {"a", "b"});
  check.tensor(0, DType::f32).tensor(1, DType::f32);
  if (!check.ok()) return check.outputs({});
  const std::optional<Shape> shape = broadcast(inputs[0].shape, inputs[1].shape);
  check.require(shape.has_value(), fmt::format("shapes {} of a and {} of b do not broadcast", shape_text(inputs[0].shape),
                                               shape_text(inputs[1].shape)));
  if (!check.ok()) return check.outputs({});
  return check.outputs({ValueType::tensor(DType::f32, *shape)});
}

// A power is a logarithm and an exponential.
Cost cost(const NodeSizes& sizes) {
  const double operations = sizes.attrs.as<BinaryAttrs>().kind == BinaryKind::pow ? 40 : 1;
  return {.flops = operations * static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

double apply(BinaryKind kind, double a, double b) {
  switch (kind) {
    case BinaryKind::add: return a + b;
    case BinaryKind::sub: return a - b;
    case BinaryKind::mul: return a * b;
    case BinaryKind::div: return a / b;
    case BinaryKind::min: return std::isnan(a) || a < b ? a : b;
    case BinaryKind::max: return std::isnan(a) || a > b ? a : b;
    case BinaryKind::pow: return std::pow(a, b);
    case BinaryKind::prelu: return a < 0 ? a * b : a;
  }
  return 0;
}

void reference(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor &a = inputs[0].tensor, &b = inputs[1].tensor;
  HostTensor& y = outputs[0];
  for (size_t i = 0; i < y.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    y.values[i] = in_float32(apply(attrs.as<BinaryAttrs>().kind, a.values[broadcast_index(a.dims, y.dims, at)],
                                   b.values[broadcast_index(b.dims, y.dims, at)]));
  }
}

// One rounding; libm's powf is within one unit in the last place.
Tolerance tolerance(std::span<const ValueType>, const Attrs& attrs) {
  return {.absolute = 1.5e-45, .relative = attrs.as<BinaryAttrs>().kind == BinaryKind::pow ? 2.4e-7 : 1.2e-7};
}

std::vector<OpCase> cases() {
  const auto filled = [](std::vector<int64_t> dims, bool strided = false) {
    return CaseInput{.dims = std::move(dims), .scale = 2.0, .strided = strided};
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  const CaseInput left{.dims = {13}, .values = {1, -1, 0, 0, -0.0, kNan, 2, kInfinity, -kInfinity, 3e38, 1e-30, -2, 4}};
  const CaseInput right{.dims = {13}, .values = {0, 0, 0, -2, 3, 1, kNan, kInfinity, 2, 3e38, 1e-10, 3, 0.5}};
  std::vector<OpCase> all;
  for (const BinaryKind kind : {BinaryKind::add, BinaryKind::sub, BinaryKind::mul, BinaryKind::div, BinaryKind::min,
                                BinaryKind::max, BinaryKind::pow, BinaryKind::prelu}) {
    const BinaryAttrs attrs{kind};
    const std::string name(binary_name(kind));
    all.push_back({.name = name + "_special", .attrs = attrs, .inputs = {left, right}});
    all.push_back({.name = name + "_same", .attrs = attrs, .inputs = {filled({5, 37}), filled({5, 37})}});
    all.push_back({.name = name + "_row", .attrs = attrs, .inputs = {filled({4, 3, 37}), filled({37})}});
    all.push_back({.name = name + "_row_first", .attrs = attrs, .inputs = {filled({1, 37}), filled({4, 37})}});
    all.push_back({.name = name + "_column", .attrs = attrs, .inputs = {filled({3, 5, 21}), filled({3, 5, 1})}});
  }
  const BinaryAttrs add{BinaryKind::add}, sub{BinaryKind::sub}, mul{BinaryKind::mul}, div{BinaryKind::div};
  const auto also = [&](std::string name, const BinaryAttrs& attrs, CaseInput a, CaseInput b, bool bench = false) {
    all.push_back({.name = std::move(name), .attrs = attrs, .inputs = {std::move(a), std::move(b)}, .bench = bench});
  };
  also("scalar", mul, filled({6, 50}), filled({}));
  also("scalar_first", sub, filled({1, 1}), filled({6, 50}));
  also("both_scalars", sub, filled({}), filled({}));
  also("strided", add, filled({3, 50}, true), filled({3, 50}, true));
  also("strided_and_row", add, filled({3, 50}, true), filled({50}));
  also("empty", add, filled({0, 8}), filled({8}));
  also("outer", sub, filled({7, 1}), filled({1, 19}));
  also("channels_first", mul, filled({2, 6, 5, 7}), filled({6, 1, 1}));
  also("mask_of_heads", add, filled({2, 3, 5, 17}), filled({2, 1, 1, 17}));
  also("every_other_axis", div, filled({3, 1, 4, 1, 5}), filled({1, 2, 1, 6, 5}));
  also("resnet_residual", add, filled({8, 56, 56, 64}), filled({8, 56, 56, 64}), true);
  also("mobilenet_residual", add, filled({8, 112, 112, 96}), filled({8, 112, 112, 96}), true);
  also("bert_bias", add, filled({1024, 3072}), filled({3072}), true);
  also("squeeze_excite", mul, filled({8, 28, 28, 120}), filled({8, 1, 1, 120}), true);
  return all;
}

std::vector<HostValue> row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  return broadcast_row_alone(inputs, row);
}

}  // namespace

const Op binary{
    .name = "binary",
    .infer = infer,
    .cost = cost,
    .reference = reference,
    .in_place = {{0, 0}, {0, 1}},
    .tolerance = tolerance,
    .cases = cases,
    .row_alone = row_alone,
};

}  // namespace headrace::ops
