// What the 8-bit ops share: checks, references and cases.
#include "ops/q8.h"

#include <cmath>

namespace headrace::ops {

std::string Quantization::describe() const { return fmt::format("{} scale={:g} zero={}", dtype_name(dtype), scale, zero); }

std::string Q8ProductAttrs::describe() const {
  std::string text = fmt::format("x_zero={}", x_zero) + epilogue.describe();
  return y ? text + " -> " + y->describe() : text;
}

std::string wrong_quantization(const Quantization& q) {
  if (!is_8_bit(q.dtype)) return fmt::format("a quantization to {}: want u8 or i8", dtype_name(q.dtype));
  if (!(q.scale > 0) || !std::isfinite(q.scale)) return fmt::format("a scale of {:g}: want one above 0", q.scale);
  const Range8 range = range_of(q.dtype);
  if (q.zero < range.low || q.zero > range.high) return fmt::format("a zero point of {} in {}", q.zero, dtype_name(q.dtype));
  return {};
}

Result<std::vector<ValueType>> infer_q8(std::string_view op, std::span<const ValueType> inputs, const Q8ProductAttrs& q8,
                                        const Shape& output) {
  InputCheck check(op, inputs, input_names({"x", "weight", "scale"}, q8.epilogue));
  if (!check.ok()) return check.outputs({});
  check.require(is_8_bit(inputs[0].dtype), fmt::format("input 0 (x): want u8 or i8, got {}", describe(inputs[0])));
  check.tensor(1, DType::i8).tensor(2, DType::f32, 1).dim(2, 0, output[output.rank() - 1]);
  if (!check.ok()) return check.outputs({});
  const std::string wrong_x = wrong_quantization({inputs[0].dtype, 1.0f, q8.x_zero});
  check.require(wrong_x.empty(), "x: " + wrong_x);
  const std::string wrong_y = q8.y ? wrong_quantization(*q8.y) : "";
  check.require(wrong_y.empty(), "y: " + wrong_y);
  check_epilogue(check, q8.epilogue, 3, output);
  return check.outputs({ValueType::tensor(q8.y ? q8.y->dtype : DType::f32, output)});
}

std::vector<ValueType> float_operands(std::span<const ValueType> inputs) {
  std::vector<ValueType> floats;
  for (size_t i = 0; i < inputs.size() && i < 2; ++i) floats.push_back(ValueType::tensor(DType::f32, inputs[i].shape));
  return floats;
}

std::vector<HostValue> float_operands(std::span<const HostValue> inputs, const Q8ProductAttrs& q8) {
  std::vector<HostValue> floats(inputs.begin(), inputs.begin() + 2);
  for (double& value : floats[0].tensor.values) value -= q8.x_zero;
  return floats;
}

void finish_q8(const Q8ProductAttrs& q8, std::span<const HostValue> inputs, HostTensor& out) {
  const HostTensor& scale = inputs[2].tensor;
  for (size_t i = 0; i < out.values.size(); ++i) {
    const auto index = static_cast<int64_t>(i), column = index % out.dims.back();
    const double y = apply_epilogue(q8.epilogue, inputs, 3, index, column, scale.values[static_cast<size_t>(column)] * out.values[i]);
    out.values[i] = q8.y ? q8.y->quantize(y) : y;
  }
}

Tolerance q8_tolerance(const Q8ProductAttrs& q8) { return q8.y ? Tolerance{1, 0} : Tolerance{1e-5, 1e-5}; }

// Sums of `terms` products of about 74 and 37 have a spread near 1 by this scale.
void add_q8_inputs(OpCase& one, const Q8ProductAttrs& q8, int64_t terms, const std::vector<int64_t>& out) {
  const double scale = 1.0 / (74.0 * 37.0 * std::sqrt(static_cast<double>(std::max<int64_t>(1, terms))));
  CaseInput scales{.dims = {out.back()}};
  for (int64_t c = 0; c < out.back(); ++c) scales.values.push_back(scale * (0.5 + static_cast<double>(c % 5) / 4));
  one.inputs.push_back(std::move(scales));
  if (q8.epilogue.bias) one.inputs.push_back({.dims = {out.back()}});
  if (q8.epilogue.residual) one.inputs.push_back({.dims = out});
}

std::vector<std::pair<std::string, Q8ProductAttrs>> q8_cases() {
  const Quantization u8{DType::u8, 0.02f, 120}, i8{DType::i8, 0.03f, -5};
  std::vector<std::pair<std::string, Q8ProductAttrs>> cases = {
      {"plain", {}}, {"to_u8", {.x_zero = 3, .y = u8}}, {"to_i8", {.x_zero = 3, .y = i8}}};
  for (const auto& [name, epilogue] : epilogue_cases()) {
    cases.push_back({name, {.x_zero = 7, .epilogue = epilogue}});
    cases.push_back({name + "_to_u8", {.x_zero = 7, .epilogue = epilogue, .y = u8}});
  }
  return cases;
}

}  // namespace headrace::ops
