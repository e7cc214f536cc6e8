#pragma once
// FP8 E5M2: sign, 5 exponent bits of bias 15, 2 mantissa bits, with infinities and NaN as IEEE has them; the
// largest value is 57344. safetensors calls it F8_E5M2.

#include <string_view>

#include "quant/fp8.h"

namespace headrace {

constexpr float fp8_e5m2_to_float(uint8_t code) {
  const uint32_t magnitude = code & 0x7F;
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  if (magnitude == 0x7C) return std::bit_cast<float>(0x7F800000u | sign);
  if (magnitude > 0x7C) return std::bit_cast<float>(0x7FC00000u | sign);
  return fp8::decode_finite<5, 2>(code);
}

// Rounds to nearest even. Past the largest value: 57344 with `saturate` (infinity too), else infinity.
constexpr uint8_t float_to_fp8_e5m2(float value, bool saturate) {
  const uint8_t sign = fp8::sign_bit(value);
  const uint32_t magnitude = fp8::magnitude_bits(value);
  if (magnitude > 0x7F800000u) return sign | 0x7E;
  const uint32_t code = fp8::round_magnitude<5, 2>(magnitude);
  if (code > 0x7B) return sign | (saturate ? 0x7B : 0x7C);
  return static_cast<uint8_t>(sign | code);
}

struct BlockFp8E5m2 {
  static constexpr int kGgufType = -1;
  static constexpr std::string_view kSafetensors = "F8_E5M2";
  static constexpr int kElements = 1;
  uint8_t code;

  static void decode(const BlockFp8E5m2& block, float* out) { *out = fp8_e5m2_to_float(block.code); }
  static void encode(const float* in, BlockFp8E5m2& block) { block.code = float_to_fp8_e5m2(*in, true); }
  bool finite() const { return (code & 0x7C) != 0x7C; }
};
static_assert(sizeof(BlockFp8E5m2) == 1);

}  // namespace headrace
