#pragma once
// Q5_1: 32 elements, f16 scale and minimum, 5-bit codes: value = scale * code + min. 6 bits an element; the
// bits lie as in Q5_0.

#include "quant/block_math.h"

namespace headrace {

struct BlockQ5_1 {
  static constexpr int kGgufType = 7;
  static constexpr int kElements = 32;
  f16 scale;
  f16 min;
  uint8_t high[4];
  uint8_t low[16];

  static void decode(const BlockQ5_1& block, float* out) {
    const float scale = to_float(block.scale);
    const float min = to_float(block.min);
    for (int i = 0; i < 32; ++i) {
      const int low = (block.low[i % 16] >> (i / 16 * 4)) & 15;
      const int high = (block.high[i / 8] >> (i % 8)) & 1;
      out[i] = scale * static_cast<float>(low | (high << 4)) + min;
    }
  }
  bool finite() const { return block_math::finite(scale) && block_math::finite(min); }
};
static_assert(sizeof(BlockQ5_1) == 24);

}  // namespace headrace
