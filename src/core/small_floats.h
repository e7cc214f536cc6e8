#pragma once
// Floats of one byte and less, as codes with exact conversions: OCP FP8 (e4m3fn, e5m2), their "fnuz" variants (no infinity, no
// negative zero, one NaN: 0x80), the scale e8m0 and OCP FP4 (e2m1, unpacked: one in a byte). Rounding is to nearest even.
// Tables of conversion: the ONNX specification of Cast, and the OCP 8-bit floating point and MX formats' specifications.

#include <cstdint>

namespace headrace {

struct f8e4m3fn {
  uint8_t bits;
};
struct f8e4m3fnuz {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};
struct f8e5m2fnuz {
  uint8_t bits;
};
struct f8e8m0 {
  uint8_t bits;
};
struct f4e2m1 {
  uint8_t bits;  // 0 to 15
};

}  // namespace headrace
