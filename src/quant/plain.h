#pragma once
// Formats that store one number an element, nothing shared: f32, f16, bf16, f64 and the integers. Decoding rounds to
// float32 (exact for all but f64, i32, i64); encoding rounds to nearest even.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/half.h"

namespace headrace {

// GGUF's number for a plain element type.
template <class T>
inline constexpr int kPlainGgufType = -1;
template <>
inline constexpr int kPlainGgufType<float> = 0;
template <>
inline constexpr int kPlainGgufType<f16> = 1;
template <>
inline constexpr int kPlainGgufType<bf16> = 30;
template <>
inline constexpr int kPlainGgufType<int8_t> = 24;
template <>
inline constexpr int kPlainGgufType<int16_t> = 25;
template <>
inline constexpr int kPlainGgufType<int32_t> = 26;
template <>
inline constexpr int kPlainGgufType<int64_t> = 27;
template <>
inline constexpr int kPlainGgufType<double> = 28;

template <class T>
struct PlainBlock {
  static constexpr int kGgufType = kPlainGgufType<T>;
  static constexpr int kElements = 1;
  T value;

  static void decode(const PlainBlock& block, float* out) {
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      *out = to_float(block.value);
    } else {
      *out = static_cast<float>(block.value);
    }
  }
  static void encode(const float* in, PlainBlock& block)
    requires(std::is_same_v<T, float> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
  {
    if constexpr (std::is_same_v<T, f16>) {
      block.value = to_f16(*in);
    } else if constexpr (std::is_same_v<T, bf16>) {
      block.value = to_bf16(*in);
    } else {
      block.value = *in;
    }
  }
  bool finite() const {
    if constexpr (std::is_integral_v<T>) {
      return true;
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::isfinite(value);
    } else {
      return std::isfinite(to_float(value));
    }
  }
};

}  // namespace headrace
