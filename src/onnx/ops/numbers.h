#pragma once
// The element types that stand for numbers, and the way from a double to an integer: what all families share.

#include <cmath>
#include <concepts>
#include <limits>

#include "onnx/tensor.h"

namespace headrace::onnx {

template <class F>
bool dispatch_float(DType dtype, F&& f) {
  return dispatch<float, double, f16, bf16>(dtype, f);
}
template <class F>
bool dispatch_integer(DType dtype, F&& f) {
  return dispatch<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(dtype, f);
}
template <class F>
bool dispatch_number(DType dtype, F&& f) {
  return dispatch_float(dtype, f) || dispatch_integer(dtype, f);
}

// The integer nearest to zero of `value`, the type's ends beyond its range, 0 for NaN.
template <std::integral T>
T saturated(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

}  // namespace headrace::onnx
