#pragma once
// pool_2d(x [N, H, W, C]) -> [N, OH, OW, C], f32: the largest or the mean of each window, channels last. max also in u8 and i8, where
// the largest of a window of pads alone is the lowest number. Dims as conv.h's, with
// `ceil_mode` rounded up where the last window still starts inside the image or its begin pad. max: pads never win. average: divides by
// the elements inside the image, or with count_pads by those inside image and pads.

#include <array>

#include "ops/op.h"

namespace headrace::ops {

struct Pool2dAttrs {
  enum class Kind : uint8_t { max, average };
  Kind kind = Kind::max;
  std::array<int64_t, 2> window = {1, 1};      // height, width
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> dilation = {1, 1};
  std::array<int64_t, 4> pads = {0, 0, 0, 0};  // top, left, bottom, right
  bool ceil_mode = false;
  bool count_pads = false;
  bool operator==(const Pool2dAttrs&) const = default;
  std::string describe() const;
};
extern const Op pool_2d;

}  // namespace headrace::ops
