#pragma once
// MXFP4 (OCP microscaling): 32 elements of FP4 E2M1 under one power-of-two scale in E8M0. 4.25 bits an
// element. Byte i holds elements i (low half) and i + 16 (high half), as GGUF orders them.

#include <bit>
#include <cstdint>

namespace headrace {

// The values of E2M1, doubled to whole numbers; the scale below is halved in turn.
inline constexpr int8_t kFp4Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct BlockMxfp4 {
  static constexpr int kGgufType = 39;
  static constexpr int kElements = 32;
  uint8_t exponent;  // scale 2^(exponent - 127); 255 is NaN in E8M0
  uint8_t codes[16];

  static void decode(const BlockMxfp4& block, float* out) {
    // Half the scale: 2^(exponent - 128), subnormal for the first two exponents.
    const uint32_t bits =
        block.exponent < 2 ? 0x00200000u << block.exponent : static_cast<uint32_t>(block.exponent - 1) << 23;
    const float half = std::bit_cast<float>(bits);
    for (int i = 0; i < 16; ++i) {
      out[i] = half * static_cast<float>(kFp4Doubled[block.codes[i] & 15]);
      out[i + 16] = half * static_cast<float>(kFp4Doubled[block.codes[i] >> 4]);
    }
  }
  bool finite() const { return exponent != 255; }
};
static_assert(sizeof(BlockMxfp4) == 17);

}  // namespace headrace
