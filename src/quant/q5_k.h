#pragma once
// Q5_K: 256 elements in eight groups of 32, 5-bit codes: value = (scale * s) * code - (min_scale * m), with a
// 6-bit s and m per group. 5.5 bits an element. Low four bits as in Q4_K; the fifth bit of element i of group
// g is bit g of high[i].

#include "quant/block_math.h"

namespace headrace {

struct BlockQ5_K {
  static constexpr int kGgufType = 13;
  static constexpr int kElements = 256;
  f16 scale;
  f16 min_scale;
  uint8_t scales[12];  // block_math::scale_min
  uint8_t high[32];
  uint8_t low[128];

  static void decode(const BlockQ5_K& block, float* out) {
    const float scale = to_float(block.scale);
    const float min_scale = to_float(block.min_scale);
    for (int group = 0; group < 8; ++group) {
      const auto [s, m] = block_math::scale_min(block.scales, group);
      const float step = scale * static_cast<float>(s);
      const float offset = min_scale * static_cast<float>(m);
      const uint8_t* low = block.low + group / 2 * 32;
      for (int i = 0; i < 32; ++i) {
        const int code = ((low[i] >> (group % 2 * 4)) & 15) | (((block.high[i] >> group) & 1) << 4);
        out[group * 32 + i] = step * static_cast<float>(code) - offset;
      }
    }
  }
  bool finite() const { return block_math::finite(scale) && block_math::finite(min_scale); }
};
static_assert(sizeof(BlockQ5_K) == 176);

}  // namespace headrace
