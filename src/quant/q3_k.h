#pragma once
// Q3_K: 256 elements in sixteen groups of 16, 3-bit codes: value = (scale * (s - 32)) * (code - 4), with a
// 6-bit s per group. 3.4375 bits an element. The low two bits of the codes lie as in Q2_K; the third bit of
// element 32 * k + i is bit k of high[i]. Byte i of the first eight `scales` holds the low four bits of
// groups i and i + 8, byte 8 + j the upper two of groups j, j + 4, j + 8 and j + 12.

#include "quant/block_math.h"

namespace headrace {

struct BlockQ3_K {
  static constexpr int kGgufType = 11;
  static constexpr int kElements = 256;
  uint8_t high[32];
  uint8_t low[64];
  uint8_t scales[12];
  f16 scale;

  static void decode(const BlockQ3_K& block, float* out) {
    const float scale = to_float(block.scale);
    for (int group = 0; group < 16; ++group) {
      const int low_bits = (block.scales[group % 8] >> (group / 8 * 4)) & 15;
      const int high_bits = (block.scales[8 + group % 4] >> (group / 4 * 2)) & 3;
      const float step = scale * static_cast<float>((low_bits | (high_bits << 4)) - 32);
      const uint8_t* low = block.low + group / 8 * 32 + group % 2 * 16;
      const uint8_t* high = block.high + group % 2 * 16;
      const int shift = group % 8 / 2 * 2;
      for (int i = 0; i < 16; ++i) {
        const int code = ((low[i] >> shift) & 3) | (((high[i] >> (group / 2)) & 1) << 2);
        out[group * 16 + i] = step * static_cast<float>(code - 4);
      }
    }
  }
  bool finite() const { return block_math::finite(scale); }
};
static_assert(sizeof(BlockQ3_K) == 110);

}  // namespace headrace
