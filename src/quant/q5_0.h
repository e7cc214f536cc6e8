#pragma once
// Q5_0: 32 elements, one f16 scale, 5-bit codes: value = scale * (code - 16). 5.5 bits an element. Byte i of
// `low` holds the low four bits of elements i and i + 16; bit i of the 32-bit little-endian `high` is the
// fifth bit of element i.

#include "quant/block_math.h"

namespace headrace {

struct BlockQ5_0 {
  static constexpr int kGgufType = 6;
  static constexpr int kElements = 32;
  f16 scale;
  uint8_t high[4];
  uint8_t low[16];

  static void decode(const BlockQ5_0& block, float* out) {
    const float scale = to_float(block.scale);
    for (int i = 0; i < 32; ++i) {
      const int low = (block.low[i % 16] >> (i / 16 * 4)) & 15;
      const int high = (block.high[i / 8] >> (i % 8)) & 1;
      out[i] = scale * static_cast<float>((low | (high << 4)) - 16);
    }
  }
  bool finite() const { return block_math::finite(scale); }
};
static_assert(sizeof(BlockQ5_0) == 22);

}  // namespace headrace
