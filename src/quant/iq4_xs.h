#pragma once
// IQ4_XS: 256 elements in eight groups of 32, indexes into the levels of IQ4_NL: value = (scale * (s - 32)) *
// level, with a 6-bit s per group. 4.25 bits an element. The low four bits of s lie in halves of scales_low,
// the upper two in the little-endian scales_high. In a group, byte i of 16 holds elements i (low half) and i
// + 16 (high half).

#include "quant/iq4_nl.h"

namespace headrace {

struct BlockIq4Xs {
  static constexpr int kGgufType = 23;
  static constexpr int kElements = 256;
  f16 scale;
  uint16_t scales_high;
  uint8_t scales_low[4];
  uint8_t codes[128];

  static void decode(const BlockIq4Xs& block, float* out) {
    const float scale = to_float(block.scale);
    for (int group = 0; group < 8; ++group) {
      const int low_bits = (block.scales_low[group / 2] >> (group % 2 * 4)) & 15;
      const int high_bits = (block.scales_high >> (group * 2)) & 3;
      const float step = scale * static_cast<float>((low_bits | (high_bits << 4)) - 32);
      const uint8_t* codes = block.codes + group * 16;
      for (int i = 0; i < 16; ++i) {
        out[group * 32 + i] = step * static_cast<float>(kIq4Levels[codes[i] & 15]);
        out[group * 32 + 16 + i] = step * static_cast<float>(kIq4Levels[codes[i] >> 4]);
      }
    }
  }
  bool finite() const { return block_math::finite(scale); }
};
static_assert(sizeof(BlockIq4Xs) == 136);

}  // namespace headrace
