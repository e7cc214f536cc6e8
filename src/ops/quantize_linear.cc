#include "ops/quantize_linear.h"

#include <cmath>
#include <limits>

#include "ops/input_check.h"
#include "ops/shapes.h"

namespace headrace::ops {

std::string QuantizeLinearAttrs::describe() const { return axis == 0 ? "" : fmt::format("axis={}", axis); }

double quantize(double x, float scale, int32_t zero, DType dtype) {
  const Range8 range = range_of(dtype);
  const float whole = std::nearbyint(static_cast<float>(x) / scale) + static_cast<float>(zero);
  if (!(whole > static_cast<float>(range.low))) return range.low;  // NaN too
  return whole < static_cast<float>(range.high) ? whole : range.high;
}

namespace {

bool is_quantized(DType dtype) { return is_8_bit(dtype) || dtype == DType::i32; }

// Scales and zero points fit each other and x.
void check_parameters(InputCheck& check, std::span<const ValueType> inputs, const QuantizeLinearAttrs& a) {
  check.any_tensor(0).tensor(1, DType::f32, 1).any_tensor(2);
  if (!check.ok()) return;
  const Shape &x = inputs[0].shape, &scale = inputs[1].shape;
  check.require(inputs[2].shape == scale, fmt::format("want as many zero points as scales, {}, got {}", shape_text(scale),
                                                      shape_text(inputs[2].shape)));
  if (scale[0] == Dim(1)) return;
  check.require(a.axis >= 0 && a.axis < x.rank(), fmt::format("axis {}: want 0 to {}", a.axis, x.rank() - 1));
  if (!check.ok()) return;
  check.require(x[a.axis] == scale[0], fmt::format("want one scale, or one for each place of axis {} of {}, got {}", a.axis,
                                                   describe(inputs[0]), shape_text(scale)));
}

Result<std::vector<ValueType>> infer_quantize(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("quantize_linear", inputs, {"x", "scale", "zero"});
  check_parameters(check, inputs, attrs.as<QuantizeLinearAttrs>());
  check.tensor(0, DType::f32);
  if (!check.ok()) return check.outputs({});
  check.require(is_8_bit(inputs[2].dtype), fmt::format("input 2 (zero): want u8 or i8, got {}", describe(inputs[2])));
  return check.outputs({ValueType::tensor(inputs[2].dtype, inputs[0].shape)});
}

Result<std::vector<ValueType>> infer_dequantize(std::span<const ValueType> inputs, const Attrs& attrs) {
  InputCheck check("dequantize_linear", inputs, {"q", "scale", "zero"});
  check_parameters(check, inputs, attrs.as<QuantizeLinearAttrs>());
  if (!check.ok()) return check.outputs({});
  check.require(is_quantized(inputs[0].dtype), fmt::format("input 0 (q): want u8, i8 or i32, got {}", describe(inputs[0])));
  check.require(inputs[2].dtype == inputs[0].dtype, fmt::format("input 2 (zero): want {}, as q, got {}",
                                                                dtype_name(inputs[0].dtype), describe(inputs[2])));
  return check.outputs({ValueType::tensor(DType::f32, inputs[0].shape)});
}

Cost cost(const NodeSizes& sizes) {
  return {.flops = 3.0 * static_cast<double>(sizes.outputs[0].shape.elements(sizes.bindings)), .bytes = all_bytes(sizes)};
}

// The scale's place for element `index`.
size_t place_of_scale(const QuantizeLinearAttrs& a, const HostTensor& x, const HostTensor& scale, int64_t index) {
  if (scale.values.size() == 1) return 0;
  int64_t inner = 1;
  for (size_t axis = x.dims.size() - 1; axis > static_cast<size_t>(a.axis); --axis) inner *= x.dims[axis];
  return static_cast<size_t>(index / inner % x.dims[static_cast<size_t>(a.axis)]);
}

void reference_quantize(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor &x = inputs[0].tensor, &scale = inputs[1].tensor, &zero = inputs[2].tensor;
  for (size_t i = 0; i < x.values.size(); ++i) {
    const size_t at = place_of_scale(attrs.as<QuantizeLinearAttrs>(), x, scale, static_cast<int64_t>(i));
    outputs[0].values[i] =
        quantize(x.values[i], static_cast<float>(scale.values[at]), static_cast<int32_t>(zero.values[at]), zero.dtype);
  }
}

void reference_dequantize(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) {
  const HostTensor &q = inputs[0].tensor, &scale = inputs[1].tensor, &zero = inputs[2].tensor;
  for (size_t i = 0; i < q.values.size(); ++i) {
    const size_t at = place_of_scale(attrs.as<QuantizeLinearAttrs>(), q, scale, static_cast<int64_t>(i));
    outputs[0].values[i] = in_float32((q.values[i] - zero.values[at]) * scale.values[at]);
  }
}

Tolerance exact(std::span<const ValueType>, const Attrs&) { return {0, 0}; }
// One rounding; i32 is rounded before the product too.
Tolerance rounded(std::span<const ValueType>, const Attrs&) { return {1e-45, 1.3e-7}; }

CaseInput numbers(DType dtype, std::vector<double> values) {
  return {.dtype = dtype, .dims = {static_cast<int64_t>(values.size())}, .values = std::move(values)};
}

std::vector<double> spread(int64_t count, double first, double step) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(first + step * static_cast<double>(i));
  return values;
}

std::vector<OpCase> cases_quantize() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::u8, DType::i8}) {
    const std::string name(dtype_name(dtype));
    const double zero = dtype == DType::u8 ? 128 : -3;
    const auto add = [&](std::string what, CaseInput x, CaseInput scale, int32_t axis = 0, bool bench = false) {
      const std::vector<double> zeros(scale.values.size(), zero);
      cases.push_back({.name = name + "_" + std::move(what),
                       .attrs = QuantizeLinearAttrs{axis},
                       .inputs = {std::move(x), std::move(scale), numbers(dtype, zeros)},
                       .bench = bench});
    };
    const CaseInput one = numbers(DType::f32, {0.0625});
    add("halves", numbers(DType::f32, spread(65, -2.0, 0.03125)), one);
    add("special", numbers(DType::f32, {kNan, kInfinity, -kInfinity, 1e30, -1e30, 0, -0.0, 7.9, -8.1, 1e-40}), one);
    add("small_scale", {.dims = {3, 21}}, numbers(DType::f32, {1e-40}));
    add("scalar", {.dims = {}}, one);
    add("empty", {.dims = {0, 7}}, one);
    add("tensor", {.dims = {3, 5, 37}, .scale = 4}, one);
    add("rows", {.dims = {5, 37}, .scale = 4}, numbers(DType::f32, spread(5, 0.01, 0.02)), 0);
    add("columns", {.dims = {5, 37}, .scale = 4}, numbers(DType::f32, spread(37, 0.01, 0.02)), 1);
    add("middle", {.dims = {3, 5, 7}, .scale = 4}, numbers(DType::f32, spread(5, 0.01, 0.02)), 1);
    if (dtype == DType::u8) add("image", {.dims = {8, 56, 56, 64}}, one, 0, true);
  }
  return cases;
}

std::vector<OpCase> cases_dequantize() {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::u8, DType::i8, DType::i32}) {
    const std::string name(dtype_name(dtype));
    const double zero = dtype == DType::u8 ? 131 : dtype == DType::i8 ? -7 : 0;
    const auto add = [&](std::string what, std::vector<int64_t> dims, std::vector<double> scales, int32_t axis = 0, bool bench = false) {
      const std::vector<double> zeros(scales.size(), zero);
      const double range = dtype == DType::u8 ? 256 : dtype == DType::i8 ? 128 : 1e9;
      cases.push_back({.name = name + "_" + std::move(what),
                       .attrs = QuantizeLinearAttrs{axis},
                       .inputs = {{.dtype = dtype, .dims = std::move(dims), .scale = range}, numbers(DType::f32, std::move(scales)),
                                  numbers(dtype, zeros)},
                       .bench = bench});
    };
    add("scalar", {}, {0.5});
    add("empty", {0, 7}, {0.5});
    add("tensor", {3, 5, 37}, {0.0123});
    add("rows", {5, 37}, spread(5, 0.01, 0.02), 0);
    add("columns", {5, 37}, spread(37, 0.01, 0.02), 1);
    add("middle", {3, 5, 7}, spread(5, 0.01, 0.02), 1);
    if (dtype == DType::u8) add("image", {8, 56, 56, 64}, {0.02}, 0, true);
  }
  const auto all = numbers(DType::i8, spread(256, -128, 1));
  cases.push_back({.name = "every_i8",
                   .attrs = QuantizeLinearAttrs{},
                   .inputs = {all, numbers(DType::f32, {0.1}), numbers(DType::i8, {-128})}});
  return cases;
}

// A row of the first axis, with its scale where that axis has them.
std::vector<HostValue> row_alone(const Attrs& attrs, std::span<const HostValue> inputs, int64_t row) {
  if (inputs[0].tensor.dims.empty()) return {};
  std::vector<HostValue> alone(inputs.begin(), inputs.end());
  alone[0].tensor = slice_row(inputs[0].tensor, row);
  if (attrs.as<QuantizeLinearAttrs>().axis != 0 || inputs[1].tensor.values.size() == 1) return alone;
  for (int i = 1; i < 3; ++i) alone[static_cast<size_t>(i)].tensor = slice_row(inputs[static_cast<size_t>(i)].tensor, row);
  return alone;
}

}  // namespace

const Op quantize_linear{.name = "quantize_linear",
                         .infer = infer_quantize,
                         .cost = cost,
                         .reference = reference_quantize,
                         .tolerance = exact,
                         .cases = cases_quantize,
                         .row_alone = row_alone};
const Op dequantize_linear{.name = "dequantize_linear",
                           .infer = infer_dequantize,
                           .cost = cost,
                           .reference = reference_dequantize,
                           .tolerance = rounded,
                           .cases = cases_dequantize,
                           .row_alone = row_alone};

}  // namespace headrace::ops
