#pragma once
// Q4_0: 32 elements, one f16 scale, 4-bit codes: value = scale * (code - 8). 4.5 bits an element. Byte i
// holds elements i (low half) and i + 16 (high half).

#include "quant/block_math.h"

namespace headrace {

struct BlockQ4_0 {
  static constexpr int kGgufType = 2;
  static constexpr int kElements = 32;
  f16 scale;
  uint8_t codes[16];

  static void decode(const BlockQ4_0& block, float* out) {
    const float scale = to_float(block.scale);
    for (int i = 0; i < 16; ++i) {
      out[i] = scale * static_cast<float>((block.codes[i] & 15) - 8);
      out[i + 16] = scale * static_cast<float>((block.codes[i] >> 4) - 8);
    }
  }
  // The element of largest magnitude takes code 0 (its scale has the opposite sign): -8 is the longest reach.
  static void encode(const float* in, BlockQ4_0& block) {
    const float scale = block_math::signed_peak(in, 32) / -8.0f;
    const float inverse = block_math::inverse(scale);
    block.scale = to_f16(scale);
    for (int i = 0; i < 16; ++i) {
      const uint8_t low = block_math::code(in[i] * inverse + 8.5f, 15);
      const uint8_t high = block_math::code(in[i + 16] * inverse + 8.5f, 15);
      block.codes[i] = static_cast<uint8_t>(low | (high << 4));
    }
  }
  bool finite() const { return block_math::finite(scale); }
};
static_assert(sizeof(BlockQ4_0) == 18);

}  // namespace headrace
