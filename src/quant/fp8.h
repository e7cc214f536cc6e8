#pragma once
// What the two 8-bit float kinds share: exact decoding and rounding to nearest even, in integer arithmetic.

#include <bit>
#include <cstdint>

namespace headrace::fp8 {

constexpr uint8_t sign_bit(float value) {
  return static_cast<uint8_t>((std::bit_cast<uint32_t>(value) >> 24) & 0x80u);
}
constexpr uint32_t magnitude_bits(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu;
}

// The value of a code that is neither infinite nor NaN.
template <int kExponentBits, int kMantissaBits>
constexpr float decode_finite(uint8_t code) {
  constexpr uint32_t bias = (1u << (kExponentBits - 1)) - 1;
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = code & 0x7Fu;
  if (magnitude < (1u << kMantissaBits)) {
    // Subnormal: mantissa units of 2^(1 - bias - kMantissaBits), a power of two that float32 holds.
    const float unit = std::bit_cast<float>((127 + 1 - bias - kMantissaBits) << 23);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(magnitude) * unit) | sign);
  }
  return std::bit_cast<float>(((magnitude << (23 - kMantissaBits)) + ((127 - bias) << 23)) | sign);
}

// The magnitude (bits of a non-NaN float) as a code without sign, rounded to nearest even; codes past the
// largest finite one continue the same ladder, for the caller to judge. Never above 0xFF.
template <int kExponentBits, int kMantissaBits>
constexpr uint32_t round_magnitude(uint32_t magnitude) {
  constexpr uint32_t bias = (1u << (kExponentBits - 1)) - 1;
  constexpr uint32_t kTop = 0xFFu;
  const uint32_t exponent = magnitude >> 23;
  if (exponent >= 127 + bias + 3) return kTop;
  // Units of the last kept bit: fixed below the smallest normal, else the number's own.
  constexpr uint32_t min_exponent = 127 + 1 - bias;
  const uint32_t below = exponent < min_exponent ? min_exponent - exponent : 0;
  const uint32_t shift = 23 - kMantissaBits + below;
  if (shift > 24) return 0;  // under half of the smallest subnormal
  const uint32_t mantissa = exponent == 0 ? 0 : (magnitude & 0x7FFFFFu) | 0x800000u;
  const uint32_t half = 1u << (shift - 1);
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  uint32_t kept = mantissa >> shift;
  if (rest > half || (rest == half && (kept & 1u) != 0)) ++kept;
  // A normal `kept` carries its implicit bit, which counts as one exponent step.
  if (below != 0) return kept;
  return kept + ((exponent - min_exponent) << kMantissaBits);
}

}  // namespace headrace::fp8
