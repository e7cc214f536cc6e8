#pragma once
// What conv_q8, gemm_q8 and add_q8 share: 8-bit numbers that stand for (q - zero) * scale, and what happens to a product of them:
//   y = quantize?(activation(scale[column] * sum((x - x_zero) * weight) + bias[column] + residual))
// The sum is exact in 32 bits, which 65,000 terms cannot leave, and wraps beyond; the rest is float32. `scale` f32 [columns] is x's scale
// times the weight's of each column; weights are i8 around 0. bias f32 [columns] and residual f32 (of the output's shape) are the last
// inputs where they are there. y is f32, or with `y` 8 bits by quantize_linear's rule.

#include <optional>
#include <string>

#include "ops/epilogue.h"
#include "ops/quantize_linear.h"

namespace headrace::ops {

struct Quantization {
  DType dtype = DType::u8;  // u8 or i8
  float scale = 1.0f;       // above 0
  int32_t zero = 0;         // a number of the dtype
  bool operator==(const Quantization&) const = default;
  std::string describe() const;  // "u8 scale=0.0123 zero=128"
  double quantize(double x) const { return ops::quantize(x, scale, zero, dtype); }
};

struct Q8ProductAttrs {
  int32_t x_zero = 0;
  Epilogue epilogue;
  std::optional<Quantization> y;  // none: f32
  bool operator==(const Q8ProductAttrs&) const = default;
  std::string describe() const;
};

// What is wrong with it; empty when nothing is.
std::string wrong_quantization(const Quantization& q);

// For infer(): inputs x, weight, scale and those of the epilogue against `output`, the shape of the same product of floats.
Result<std::vector<ValueType>> infer_q8(std::string_view op, std::span<const ValueType> inputs, const Q8ProductAttrs& q8,
                                        const Shape& output);
// The inputs as the floats of that product: x and weight.
std::vector<ValueType> float_operands(std::span<const ValueType> inputs);
std::vector<HostValue> float_operands(std::span<const HostValue> inputs, const Q8ProductAttrs& q8);
// `out` holds its sums, and gets what the node gives.
void finish_q8(const Q8ProductAttrs& q8, std::span<const HostValue> inputs, HostTensor& out);
// Of sums that are exact: the roundings behind them; a quantized result may fall on the other side of a half.
Tolerance q8_tolerance(const Q8ProductAttrs& q8);
// Inputs scale, bias and residual of a case whose sums have `terms` products; `out`: the output's dims.
void add_q8_inputs(OpCase& one, const Q8ProductAttrs& q8, int64_t terms, const std::vector<int64_t>& out);
// Every kind of end that a case should have, with a name for each.
std::vector<std::pair<std::string, Q8ProductAttrs>> q8_cases();

}  // namespace headrace::ops
