#pragma once
// Q4_1: 32 elements, f16 scale and minimum, 4-bit codes: value = scale * code + min. 5 bits an element. Byte
// i holds elements i (low half) and i + 16 (high half).

#include "quant/block_math.h"

namespace headrace {

struct BlockQ4_1 {
  static constexpr int kGgufType = 3;
  static constexpr int kElements = 32;
  f16 scale;
  f16 min;
  uint8_t codes[16];

  static void decode(const BlockQ4_1& block, float* out) {
    const float scale = to_float(block.scale);
    const float min = to_float(block.min);
    for (int i = 0; i < 16; ++i) {
      out[i] = scale * static_cast<float>(block.codes[i] & 15) + min;
      out[i + 16] = scale * static_cast<float>(block.codes[i] >> 4) + min;
    }
  }
  static void encode(const float* in, BlockQ4_1& block) {
    const auto [low_end, high_end] = std::minmax_element(in, in + 32);
    const float min = *low_end;
    const float scale = (*high_end - min) / 15.0f;
    const float inverse = block_math::inverse(scale);
    block.scale = to_f16(scale);
    block.min = to_f16(min);
    for (int i = 0; i < 16; ++i) {
      const uint8_t low = block_math::code((in[i] - min) * inverse + 0.5f, 15);
      const uint8_t high = block_math::code((in[i + 16] - min) * inverse + 0.5f, 15);
      block.codes[i] = static_cast<uint8_t>(low | (high << 4));
    }
  }
  bool finite() const { return block_math::finite(scale) && block_math::finite(min); }
};
static_assert(sizeof(BlockQ4_1) == 20);

}  // namespace headrace
