#pragma once
// FP8 E4M3 (the "fn" kind): sign, 4 exponent bits of bias 7, 3 mantissa bits; no infinity, NaN is S.1111.111,
// the largest value 448. safetensors calls it F8_E4M3.

#include <string_view>

#include "quant/fp8.h"

namespace headrace {

constexpr float fp8_e4m3_to_float(uint8_t code) {
  if ((code & 0x7F) == 0x7F)
    return std::bit_cast<float>(0x7FC00000u | (static_cast<uint32_t>(code & 0x80) << 24));
  return fp8::decode_finite<4, 3>(code);
}

// Rounds to nearest even. Past the largest value: 448 with `saturate`, else NaN (464, halfway to the next
// step, still rounds to 448).
constexpr uint8_t float_to_fp8_e4m3(float value, bool saturate) {
  const uint8_t sign = fp8::sign_bit(value);
  const uint32_t magnitude = fp8::magnitude_bits(value);
  if (magnitude > 0x7F800000u) return sign | 0x7F;
  const uint32_t code = fp8::round_magnitude<4, 3>(magnitude);
  if (code > 0x7E) return sign | (saturate ? 0x7E : 0x7F);
  return static_cast<uint8_t>(sign | code);
}

struct BlockFp8E4m3 {
  static constexpr int kGgufType = -1;
  static constexpr std::string_view kSafetensors = "F8_E4M3";
  static constexpr int kElements = 1;
  uint8_t code;

  static void decode(const BlockFp8E4m3& block, float* out) { *out = fp8_e4m3_to_float(block.code); }
  static void encode(const float* in, BlockFp8E4m3& block) { block.code = float_to_fp8_e4m3(*in, true); }
  bool finite() const { return (code & 0x7F) != 0x7F; }
};
static_assert(sizeof(BlockFp8E4m3) == 1);

}  // namespace headrace
