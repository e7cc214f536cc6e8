#pragma once
// IQ4_NL: 32 elements, one f16 scale, 4-bit indexes into sixteen unevenly spaced levels: value = scale *
// level. 4.5 bits an element. Byte i holds elements i (low half) and i + 16 (high half).

#include "quant/block_math.h"

namespace headrace {

inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

struct BlockIq4Nl {
  static constexpr int kGgufType = 20;
  static constexpr int kElements = 32;
  f16 scale;
  uint8_t codes[16];

  static void decode(const BlockIq4Nl& block, float* out) {
    const float scale = to_float(block.scale);
    for (int i = 0; i < 16; ++i) {
      out[i] = scale * static_cast<float>(kIq4Levels[block.codes[i] & 15]);
      out[i + 16] = scale * static_cast<float>(kIq4Levels[block.codes[i] >> 4]);
    }
  }
  bool finite() const { return block_math::finite(scale); }
};
static_assert(sizeof(BlockIq4Nl) == 18);

}  // namespace headrace
