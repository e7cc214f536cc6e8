#pragma once
// Q2_K: 256 elements in sixteen groups of 16, 2-bit codes: value = (scale * s) * code - (min_scale * m), with
// a 4-bit s (low half) and m (high half) per group. 2.625 bits an element. The block is two halves of 128
// elements; in a half, byte i of 32 holds elements i, i + 32, i + 64 and i + 96, low bits first.

#include "quant/block_math.h"

namespace headrace {

struct BlockQ2_K {
  static constexpr int kGgufType = 10;
  static constexpr int kElements = 256;
  uint8_t scales[16];
  uint8_t codes[64];
  f16 scale;
  f16 min_scale;

  static void decode(const BlockQ2_K& block, float* out) {
    const float scale = to_float(block.scale);
    const float min_scale = to_float(block.min_scale);
    for (int group = 0; group < 16; ++group) {
      const float step = scale * static_cast<float>(block.scales[group] & 15);
      const float offset = min_scale * static_cast<float>(block.scales[group] >> 4);
      const uint8_t* codes = block.codes + group / 8 * 32 + group % 2 * 16;
      const int shift = group % 8 / 2 * 2;
      for (int i = 0; i < 16; ++i) {
        out[group * 16 + i] = step * static_cast<float>((codes[i] >> shift) & 3) - offset;
      }
    }
  }
  bool finite() const { return block_math::finite(scale) && block_math::finite(min_scale); }
};
static_assert(sizeof(BlockQ2_K) == 84);

}  // namespace headrace
