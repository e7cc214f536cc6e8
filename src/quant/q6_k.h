#pragma once
// Q6_K: 256 elements in sixteen groups of 16, 6-bit codes: value = (scale * s) * (code - 32), with a signed
// 8-bit s per group. 6.5625 bits an element. The block is two halves of 128 elements; in a half, byte i of
// `low` (64 bytes) holds the low four bits of elements i and i + 64, and byte i of `high` (32 bytes) the
// upper two of i, i+32, i+64, i+96.

#include "quant/block_math.h"

namespace headrace {

struct BlockQ6_K {
  static constexpr int kGgufType = 14;
  static constexpr int kElements = 256;
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  f16 scale;

  static void decode(const BlockQ6_K& block, float* out) {
    const float scale = to_float(block.scale);
    for (int group = 0; group < 16; ++group) {
      const float step = scale * static_cast<float>(block.scales[group]);
      const uint8_t* low = block.low + group / 8 * 64;
      const uint8_t* high = block.high + group / 8 * 32;
      for (int i = 0; i < 16; ++i) {
        const int at = group % 8 * 16 + i;  // within the half
        const int code =
            ((low[at % 64] >> (at / 64 * 4)) & 15) | (((high[at % 32] >> (at / 32 * 2)) & 3) << 4);
        out[group * 16 + i] = step * static_cast<float>(code - 32);
      }
    }
  }
  bool finite() const { return block_math::finite(scale); }
};
static_assert(sizeof(BlockQ6_K) == 210);

}  // namespace headrace
