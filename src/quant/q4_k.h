#pragma once
// Q4_K: 256 elements in eight groups of 32, 4-bit codes: value = (scale * s) * code - (min_scale * m), with a
// 6-bit s and m per group. 4.5 bits an element. Byte 32 * j + i holds element i of groups 2j (low half) and
// 2j + 1 (high).

#include "quant/block_math.h"

namespace headrace {

struct BlockQ4_K {
  static constexpr int kGgufType = 12;
  static constexpr int kElements = 256;
  f16 scale;
  f16 min_scale;
  uint8_t scales[12];  // block_math::scale_min
  uint8_t codes[128];

  static void decode(const BlockQ4_K& block, float* out) {
    const float scale = to_float(block.scale);
    const float min_scale = to_float(block.min_scale);
    for (int group = 0; group < 8; ++group) {
      const auto [s, m] = block_math::scale_min(block.scales, group);
      const float step = scale * static_cast<float>(s);
      const float offset = min_scale * static_cast<float>(m);
      const uint8_t* codes = block.codes + group / 2 * 32;
      for (int i = 0; i < 32; ++i) {
        out[group * 32 + i] = step * static_cast<float>((codes[i] >> (group % 2 * 4)) & 15) - offset;
      }
    }
  }
  bool finite() const { return block_math::finite(scale) && block_math::finite(min_scale); }
};
static_assert(sizeof(BlockQ4_K) == 144);

}  // namespace headrace
