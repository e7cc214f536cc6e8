#pragma once
// Arithmetic that the block formats share. Every step is one float32 operation in the order of the reference
// (the `gguf` package), so that decoded and encoded values agree with it bit for bit.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/half.h"

namespace headrace::block_math {

inline bool finite(f16 value) {
  return (value.bits & 0x7C00u) != 0x7C00u;
}

// 1 / scale, with 0 for a block of zeros.
inline float inverse(float scale) {
  return scale == 0.0f ? 0.0f : 1.0f / scale;
}

// The code of `value`: its integer part, clamped to [0, max]. NaN becomes 0.
inline uint8_t code(float value, int max) {
  if (!(value > 0.0f)) return 0;
  return static_cast<uint8_t>(std::min(value, static_cast<float>(max)));
}

// The first element of largest magnitude, with its sign.
inline float signed_peak(const float* values, int count) {
  float peak = values[0];
  for (int i = 1; i < count; ++i) {
    if (std::fabs(values[i]) > std::fabs(peak)) peak = values[i];
  }
  return peak;
}

// The 6-bit scales and minimums of Q4_K and Q5_K: eight of each in twelve bytes. Bytes 0..3 hold the low six
// bits of scales 0..3, bytes 4..7 those of minimums 0..3; the two top bits of each, and the nibbles of
// bytes 8..11, make up scales and minimums 4..7.
struct ScaleMin {
  uint8_t scale;
  uint8_t min;
};
inline ScaleMin scale_min(const uint8_t* packed, int group) {
  if (group < 4) {
    return {static_cast<uint8_t>(packed[group] & 63), static_cast<uint8_t>(packed[group + 4] & 63)};
  }
  const uint8_t low = packed[group + 4];
  return {static_cast<uint8_t>((low & 15) | (packed[group - 4] >> 6 << 4)),
          static_cast<uint8_t>((low >> 4) | (packed[group] >> 6 << 4))};
}

}  // namespace headrace::block_math
