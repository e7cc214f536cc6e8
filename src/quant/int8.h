#pragma once
// Integer dot products as quantized kernels compute them: 8-bit factors, exact 32-bit sums. Instructions that
// add pairs in 16 bits saturate (255 * 127 * 2 does not fit); whatever a kernel uses must give this sum.

#include <cstdint>
#include <span>

#include "base/check.h"

namespace headrace {

// Exact for up to 65,793 elements (255 * 128 * 65,793 < 2^31).
inline int32_t dot_u8s8(std::span<const uint8_t> a, std::span<const int8_t> b) {
  CHECK(a.size() == b.size() && a.size() <= 65793);
  int32_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<int32_t>(a[i]) * static_cast<int32_t>(b[i]);
  return sum;
}

}  // namespace headrace
