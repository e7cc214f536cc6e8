#pragma once
// Q8_0: 32 elements, one f16 scale, signed 8-bit codes: value = scale * code. 8.5 bits an element.

#include "quant/block_math.h"

namespace headrace {

struct BlockQ8_0 {
  static constexpr int kGgufType = 8;
  static constexpr int kElements = 32;
  f16 scale;
  int8_t codes[32];

  static void decode(const BlockQ8_0& block, float* out) {
    const float scale = to_float(block.scale);
    for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(block.codes[i]) * scale;
  }
  // Halves round away from zero. The clamp matters only for values that are not finite.
  static void encode(const float* in, BlockQ8_0& block) {
    const float scale = std::fabs(block_math::signed_peak(in, 32)) / 127.0f;
    const float inverse = block_math::inverse(scale);
    block.scale = to_f16(scale);
    for (int i = 0; i < 32; ++i) {
      const float code = std::round(in[i] * inverse);
      block.codes[i] = code == code ? static_cast<int8_t>(std::clamp(code, -127.0f, 127.0f)) : int8_t{0};
    }
  }
  bool finite() const { return block_math::finite(scale); }
};
static_assert(sizeof(BlockQ8_0) == 34);

}  // namespace headrace
