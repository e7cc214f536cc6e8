#pragma once
// Between f32 and 8-bit numbers, as ONNX's QuantizeLinear and DequantizeLinear have it.
//
// quantize_linear(x f32 [...], scale f32 [S], zero u8|i8 [S]) -> [...] of zero's dtype
//   y = saturate(round(x / scale) + zero): halves go to even; NaN becomes the lowest number.
// dequantize_linear(q u8|i8|i32 [...], scale f32 [S], zero of q's dtype [S]) -> f32 [...]
//   y = (q - zero) * scale
// S is 1, or the length of `axis`: then each place along it has a scale of its own.

#include "ops/op.h"

namespace headrace::ops {

struct QuantizeLinearAttrs {
  int32_t axis = 0;  // that S runs along; means nothing where S is 1
  bool operator==(const QuantizeLinearAttrs&) const = default;
  std::string describe() const;
};
extern const Op quantize_linear;
extern const Op dequantize_linear;

// The numbers that an 8-bit dtype has.
struct Range8 {
  int32_t low, high;
};
constexpr bool is_8_bit(DType dtype) { return dtype == DType::u8 || dtype == DType::i8; }
constexpr Range8 range_of(DType dtype) { return dtype == DType::u8 ? Range8{0, 255} : Range8{-128, 127}; }
// quantize_linear of one number. In float32, as kernels do it: the double that a reference has is rounded first.
double quantize(double x, float scale, int32_t zero, DType dtype);

}  // namespace headrace::ops
