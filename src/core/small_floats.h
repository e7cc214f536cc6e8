#pragma once
// Floats of one byte and less, as codes with exact conversions: OCP FP8 (e4m3fn, e5m2), their "fnuz" variants (no infinity, no
// negative zero, one NaN: 0x80), the scale e8m0 and OCP FP4 (e2m1, unpacked: one in a byte). Rounding is to nearest even.
// Tables of conversion: the ONNX specification of Cast, and the OCP 8-bit floating point and MX formats' specifications.

#include <bit>
#include <cstdint>

#include "core/half.h"

namespace headrace {

struct f8e4m3fn {
  uint8_t bits;
};
struct f8e4m3fnuz {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};
struct f8e5m2fnuz {
  uint8_t bits;
};
struct f8e8m0 {
  uint8_t bits;
};
struct f4e2m1 {
  uint8_t bits;  // 0 to 15
};

// A binary float of at most 16 bits: sign, exponent, mantissa. Codes are without their sign.
struct SmallFormat {
  int exponent_bits, mantissa_bits, bias;
  uint32_t largest;   // code of the largest finite value
  uint32_t overflow;  // code of what does not saturate: infinity, or NaN where there is none
  uint32_t nan;
  bool fnuz = false;  // the negative zero's code is the only NaN
  bool nan_has_sign = true;
};

template <class T>
inline constexpr SmallFormat kSmallFormat{};
template <>
inline constexpr SmallFormat kSmallFormat<f8e4m3fn>{4, 3, 7, 0x7E, 0x7F, 0x7F};
template <>
inline constexpr SmallFormat kSmallFormat<f8e4m3fnuz>{4, 3, 8, 0x7F, 0x80, 0x80, true, false};
template <>
inline constexpr SmallFormat kSmallFormat<f8e5m2>{5, 2, 15, 0x7B, 0x7C, 0x7E};
template <>
inline constexpr SmallFormat kSmallFormat<f8e5m2fnuz>{5, 2, 16, 0x7F, 0x80, 0x80, true, false};
template <>
inline constexpr SmallFormat kSmallFormat<f4e2m1>{2, 1, 1, 0x7, 0x7, 0x8, false, false};  // no NaN: it becomes -0
template <>
inline constexpr SmallFormat kSmallFormat<f16>{5, 10, 15, 0x7BFF, 0x7C00, 0x7E00};
template <>
inline constexpr SmallFormat kSmallFormat<bf16>{8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0};

// The nearest code, ties to even. `saturate`: what is too large, infinity too, becomes the largest finite value.
template <class T>
constexpr T to_small_float(double value, bool saturate) {
  constexpr SmallFormat format = kSmallFormat<T>;
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint32_t sign = bits >> 63 != 0 ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  const auto code = [](uint32_t bits_of_code) { return T{static_cast<decltype(T::bits)>(bits_of_code)}; };
  if (value != value) return code(format.nan_has_sign ? sign | format.nan : format.nan);
  const double magnitude = std::bit_cast<double>(bits & ~(uint64_t{1} << 63));
  uint32_t result = 0;
  if (std::bit_cast<uint64_t>(magnitude) >> 52 == 0x7FF) {
    result = format.overflow;
    if (saturate) result = format.largest;
  } else {
    const int smallest = 1 - format.bias;
    int exponent = static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023;
    if (exponent < smallest) exponent = smallest;
    // In units of the last place, whose size is a power of two: exact.
    const double units = magnitude * std::bit_cast<double>(static_cast<uint64_t>(format.mantissa_bits - exponent + 1023) << 52);
    auto whole = static_cast<uint32_t>(units);
    const double rest = units - whole;
    if (rest > 0.5 || (rest == 0.5 && (whole & 1) != 0)) ++whole;
    result = (static_cast<uint32_t>(exponent - smallest) << format.mantissa_bits) + whole;
    if (result > format.largest) result = saturate ? format.largest : format.overflow;
  }
  if (format.fnuz && (result == 0 || result == format.nan)) return code(result);
  return code(sign | result);
}

template <class T>
  requires(kSmallFormat<T>.exponent_bits != 0)
constexpr float to_float(T value) {
  constexpr SmallFormat format = kSmallFormat<T>;
  constexpr int sign_at = format.exponent_bits + format.mantissa_bits;
  const uint32_t sign = static_cast<uint32_t>(value.bits) >> sign_at & 1, code = value.bits & ((1u << sign_at) - 1);
  const auto signed_float = [&](uint32_t bits) { return std::bit_cast<float>(bits | sign << 31); };
  if (format.fnuz && value.bits == format.nan) return std::bit_cast<float>(0x7FC00000u);
  if (code > format.largest)
    return signed_float(code == format.overflow && format.overflow != format.nan ? 0x7F800000u : 0x7FC00000u);
  const uint32_t exponent = code >> format.mantissa_bits, mantissa = code & ((1u << format.mantissa_bits) - 1);
  const auto power = [](int p) { return std::bit_cast<float>(static_cast<uint32_t>(p + 127) << 23); };
  const float magnitude = exponent == 0 ? static_cast<float>(mantissa) * power(1 - format.bias - format.mantissa_bits)
                                        : static_cast<float>(mantissa + (1u << format.mantissa_bits)) *
                                              power(static_cast<int>(exponent) - format.bias - format.mantissa_bits);
  return signed_float(std::bit_cast<uint32_t>(magnitude));
}

// A power of two: the exponent of binary32 without sign or mantissa, and without zero.
constexpr float to_float(f8e8m0 value) {
  if (value.bits == 0xFF) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(value.bits == 0 ? 0x00400000u : static_cast<uint32_t>(value.bits) << 23);
}

enum class ScaleRounding : uint8_t { up, down, nearest };  // of exponents; nearest: the middle between two powers goes up

// Out of range (zero and infinity too): the nearest code when it saturates, otherwise NaN. Below zero: NaN.
constexpr f8e8m0 to_f8e8m0(double value, bool saturate, ScaleRounding rounding) {
  constexpr f8e8m0 nan{0xFF};
  if (value != value || value < 0) return nan;
  if (value < 0x1p-127) return saturate ? f8e8m0{0} : nan;
  if (value > 0x1p127) {  // beyond the largest, unless the rounding leads back to it
    const bool back =
        value < 0x1p128 && (rounding == ScaleRounding::down || (rounding == ScaleRounding::nearest && value < 0x1.8p127));
    return saturate || back ? f8e8m0{0xFE} : nan;
  }
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const bool more =
      rounding == ScaleRounding::up ? fraction != 0 : rounding == ScaleRounding::nearest && fraction >= uint64_t{1} << 51;
  return f8e8m0{static_cast<uint8_t>((bits >> 52) - 1023 + 127 + (more ? 1 : 0))};
}

}  // namespace headrace
