#pragma once
// Two-dimensional convolutions over channels-last images (one-dimensional ones have height 1). f32.
//
// conv(x [N, H, W, C], weight [O, C / groups, KH, KW], bias [O]?, residual [N, OH, OW, O]?) -> [N, OH, OW, O]
//   OH = (H + pad_top + pad_bottom - dilation * (KH - 1) - 1) / stride + 1, rounded down; the same for the width.
// conv_transpose(x [N, H, W, C], weight [C, O / groups, KH, KW], bias [O]?, residual?) -> [N, OH, OW, O]
//   OH = stride * (H - 1) + output_pad + dilation * (KH - 1) + 1 - pad_top - pad_bottom: the gradient of conv.
// Both cross-correlate (no flip). Pads are zeros and may not be negative. Weights stand as ONNX files have them.

#include <array>

#include "ops/epilogue.h"
#include "ops/op.h"
#include "ops/window.h"

namespace headrace::ops {

struct ConvAttrs {
  std::array<int64_t, 2> stride = {1, 1};      // height, width
  std::array<int64_t, 2> dilation = {1, 1};
  std::array<int64_t, 4> pads = {0, 0, 0, 0};  // top, left, bottom, right
  std::array<int64_t, 2> output_pad = {0, 0};  // conv_transpose only
  int64_t groups = 1;
  Epilogue epilogue;
  bool operator==(const ConvAttrs&) const = default;
  std::string describe() const;
  // Along one axis of the image, of a weight that has `window` places there.
  Windows windows(int axis, int64_t window) const { return {window, stride[axis], dilation[axis], pads[axis], pads[2 + axis]}; }
};
extern const Op conv;
extern const Op conv_transpose;

}  // namespace headrace::ops
