#include "ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/input_check.h"
#include "ops/shapes.h"

namespace headrace::ops {
namespace {

using Kind = ReduceAttrs::Kind;

constexpr Kind kKinds[] = {Kind::sum, Kind::mean, Kind::max,        Kind::min,        Kind::prod,
                           Kind::l1,  Kind::l2,   Kind::sum_square, Kind::log_sum_exp};

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::sum:
      return "sum";
    case Kind::mean:
      return "mean";
    case Kind::max:
      return "max";
    case Kind::min:
      return "min";
    case Kind::prod:
      return "prod";
    case Kind::l1:
      return "l1";
    case Kind::l2:
      return "l2";
    case Kind::sum_square:
      return "sum_square";
    case Kind::log_sum_exp:
      return "log_sum_exp";
  }
  return "?";
}

// ---- reduce -------------------------------------------------------------------------------------

bool is_reduced(const ReduceAttrs& attrs, int axis) { return std::find(attrs.axes.begin(), attrs.axes.end(), axis) != attrs.axes.end(); }

Result<std::vector<ValueType>> infer_reduce(std::span<const ValueType> inputs, const Attrs& attrs) {
  const auto& reduce = attrs.as<ReduceAttrs>();
  InputCheck check("reduce", inputs, {"x"});
  check.tensor(0, DType::f32);
  if (!check.ok()) return check.outputs({});
  const Shape& x = inputs[0].shape;
  for (size_t i = 0; i < reduce.axes.size(); ++i) {
    const int32_t axis = reduce.axes[i];
    check.require(axis >= 0 && axis < x.rank() && (i == 0 || reduce.axes[i - 1] < axis),
                  fmt::format("axes must rise and lie within {} of x, got {}", shape_text(x), list_text(reduce.axes)));
  }
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!is_reduced(reduce, axis)) {
      shape.push_back(x[axis]);
    } else if (reduce.keep_dims) {
      shape.push_back(1);
    }
  }
  return check.outputs({ValueType::tensor(DType::f32, shape)});
}

Cost cost_reduce(const NodeSizes& sizes) {
  const double operations = sizes.attrs.as<ReduceAttrs>().kind == Kind::log_sum_exp ? 18 : 2;
  return {.flops = operations * static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

double reduced(Kind kind, const std::vector<double>& values) {
  double sum = 0, squares = 0, product = 1, magnitudes = 0;
  double largest = -std::numeric_limits<double>::infinity(), least = std::numeric_limits<double>::infinity();
  for (const double value : values) {
    sum += value;
    squares += value * value;
    product *= value;
    magnitudes += std::fabs(value);
    largest = std::isnan(value) || value > largest ? value : largest;
    least = std::isnan(value) || value < least ? value : least;
  }
  switch (kind) {
    case Kind::sum:
      return sum;
    case Kind::mean:
      return sum / static_cast<double>(values.size());
    case Kind::max:
      return largest;
    case Kind::min:
      return least;
    case Kind::prod:
      return product;
    case Kind::l1:
      return magnitudes;
    case Kind::l2:
      return std::sqrt(squares);
    case Kind::sum_square:
      return squares;
    case Kind::log_sum_exp:
      break;
  }
  if (std::isinf(largest)) return largest;
  double exponentials = 0;
  for (const double value : values) exponentials += std::exp(value - largest);
  return largest + std::log(exponentials);
}

void reference_reduce(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const auto& reduce = attrs.as<ReduceAttrs>();
  const HostTensor& x = inputs[0].tensor;
  std::vector<int64_t> kept = x.dims;
  for (const int32_t axis : reduce.axes) kept[axis] = 1;
  std::vector<std::vector<double>> groups(outputs[0].values.size());
  for (size_t i = 0; i < x.values.size(); ++i) {
    groups[broadcast_index(kept, x.dims, static_cast<int64_t>(i))].push_back(x.values[i]);
  }
  for (size_t i = 0; i < groups.size(); ++i) outputs[0].values[i] = reduced(reduce.kind, groups[i]);
}

// float32 sums of up to some thousand terms near 1 in 16 lanes or more; a sum may cancel.
Tolerance tolerance_reduce(std::span<const ValueType>, const Attrs& attrs) {
  switch (attrs.as<ReduceAttrs>().kind) {
    case Kind::max:
    case Kind::min:
      return {.absolute = 0, .relative = 0};
    case Kind::sum:
      return {.absolute = 2e-4, .relative = 3e-6};
    default:
      return {.absolute = 2e-6, .relative = 4e-6};
  }
}

CaseInput filled(std::vector<int64_t> dims, double scale = 1.0, bool strided = false) {
  return {.dims = std::move(dims), .scale = scale, .strided = strided};
}

std::vector<OpCase> cases_reduce() {
  std::vector<OpCase> all;
  const auto add = [&](std::string name, const ReduceAttrs& attrs, CaseInput x, bool bench = false) {
    all.push_back({.name = std::move(name), .attrs = attrs, .inputs = {std::move(x)}, .bench = bench});
  };
  CaseInput special{.dims = {4, 5}};
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  special.values = {1,          kNan,       2,          -3,         4,          kInfinity, 1,    2,   3,    4,
                    -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -100,      -200, -90, -300, -90};
  for (const Kind kind : kKinds) {
    const std::string name(name_of(kind));
    add(name + "_last", {kind, {1}}, filled({5, 100}));
    add(name + "_first", {kind, {0}}, filled({9, 37}));
    add(name + "_middle", {kind, {1, 2}}, filled({2, 5, 3, 21}));
    add(name + "_alternating", {kind, {0, 2}, false}, filled({3, 4, 5, 6}));
    add(name + "_special", {kind, {1}}, special);
    add(name + "_special_columns", {kind, {0}}, special);
    add(name + "_of_nothing", {kind, {1}, false}, filled({3, 0, 2}));
  }
  add("all", {Kind::sum, {0, 1, 2}, false}, filled({2, 3, 35}));
  add("all_kept", {Kind::max, {0, 1, 2}, true}, filled({2, 3, 35}));
  add("none", {Kind::l2, {}, true}, filled({2, 35}));
  add("no_axes", {Kind::mean, {}, true}, filled({}));
  add("strided", {Kind::mean, {1}}, filled({4, 50}, 1.0, true));
  add("strided_first", {Kind::sum, {0}}, filled({4, 50}, 1.0, true));
  add("empty", {Kind::sum, {1}}, filled({0, 9}));
  add("global_average", {Kind::mean, {1, 2}}, filled({8, 7, 7, 2048}), true);
  add("global_average_early", {Kind::mean, {1, 2}}, filled({8, 56, 56, 64}), true);
  add("channels_first_average", {Kind::mean, {2, 3}}, filled({8, 64, 56, 56}), true);
  add("token_mean", {Kind::mean, {1}}, filled({8, 128, 384}), true);
  add("rows", {Kind::sum_square, {1}}, filled({1024, 768}), true);
  return all;
}

std::vector<HostValue> reduce_row_alone(const Attrs& attrs, std::span<const HostValue> inputs, int64_t row) {
  if (is_reduced(attrs.as<ReduceAttrs>(), 0)) return {};
  return slice_rows(inputs, {0}, row);
}

// ---- softmax ------------------------------------------------------------------------------------

Result<std::vector<ValueType>> infer_softmax(std::span<const ValueType> inputs, const Attrs&) {
  InputCheck check("softmax", inputs, {"x"});
  check.tensor(0, DType::f32);
  if (check.ok()) check.require(inputs[0].shape.rank() >= 1, "x must have an axis");
  if (!check.ok()) return check.outputs({});
  return check.outputs({inputs[0]});
}

Cost cost_softmax(const NodeSizes& sizes) {
  return {.flops = 20 * static_cast<double>(sizes.inputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

void reference_softmax(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor& x = inputs[0].tensor;
  const int64_t width = x.dims.back();
  for (size_t begin = 0; begin < x.values.size(); begin += static_cast<size_t>(width)) {
    const double* in = x.values.data() + begin;
    double* out = outputs[0].values.data() + begin;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < width; ++i) largest = std::isnan(in[i]) || in[i] > largest ? in[i] : largest;
    for (int64_t i = 0; i < width; ++i) sum += std::exp(in[i] - largest);
    for (int64_t i = 0; i < width; ++i) {
      out[i] = attrs.as<SoftmaxAttrs>().log ? in[i] - largest - std::log(sum) : std::exp(in[i] - largest) / sum;
    }
  }
}

Tolerance tolerance_softmax(std::span<const ValueType>, const Attrs&) { return {.absolute = 1e-6, .relative = 2e-6}; }

std::vector<OpCase> cases_softmax() {
  std::vector<OpCase> all;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  CaseInput special{.dims = {4, 4}};
  special.values = {1, kNan, 2, 3, -kInfinity, 0, -kInfinity, 1, -kInfinity, -kInfinity, -kInfinity, -kInfinity, 3e38, 3e38, -3e38, 0};
  for (const bool log : {false, true}) {
    const SoftmaxAttrs attrs{log};
    const std::string name = log ? "log_" : "";
    all.push_back({.name = name + "one_element", .attrs = attrs, .inputs = {filled({3, 1})}});
    all.push_back({.name = name + "odd_width", .attrs = attrs, .inputs = {filled({5, 37}, 4.0)}});
    all.push_back({.name = name + "one_axis", .attrs = attrs, .inputs = {filled({131}, 20.0)}});
    all.push_back({.name = name + "wide", .attrs = attrs, .inputs = {filled({2, 3, 5000}, 8.0)}});
    all.push_back({.name = name + "strided", .attrs = attrs, .inputs = {filled({4, 50}, 2.0, true)}});
    all.push_back({.name = name + "special", .attrs = attrs, .inputs = {special}});
    all.push_back({.name = name + "empty", .attrs = attrs, .inputs = {filled({0, 8})}});
    all.push_back({.name = name + "empty_rows", .attrs = attrs, .inputs = {filled({8, 0})}});
    all.push_back({.name = name + "attention", .attrs = attrs, .inputs = {filled({96, 128, 128}, 3.0)}, .bench = true});
    all.push_back({.name = name + "classes", .attrs = attrs, .inputs = {filled({8, 1000}, 3.0)}, .bench = true});
  }
  return all;
}

std::vector<HostValue> softmax_row_alone(const Attrs&, std::span<const HostValue> inputs, int64_t row) {
  if (inputs[0].tensor.dims.size() == 1) return {};
  return slice_rows(inputs, {0}, row);
}

}  // namespace

std::string ReduceAttrs::describe() const {
  return fmt::format("{} axes={}{}", name_of(kind), list_text(axes), keep_dims ? "" : " dropped");
}

const Op reduce{
    .name = "reduce",
    .infer = infer_reduce,
    .cost = cost_reduce,
    .reference = reference_reduce,
    .tolerance = tolerance_reduce,
    .cases = cases_reduce,
    .row_alone = reduce_row_alone,
};

const Op softmax{
    .name = "softmax",
    .infer = infer_softmax,
    .cost = cost_softmax,
    .reference = reference_softmax,
    .in_place = {{0, 0}},
    .tolerance = tolerance_softmax,
    .cases = cases_softmax,
    .row_alone = softmax_row_alone,
};

}  // namespace headrace::ops
