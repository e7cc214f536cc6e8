#pragma once
// resize_2d(x f32 [N, H, W, C]) -> f32 [N, OH, OW, C], channels last: nearest or (bi)linear, antialias off. Output place o lies at input
// place x(o) by `coordinates`, with `scale` = output / input as the model gives it (not always OH / H):
//   half_pixel (o + 0.5) / scale - 0.5;  pytorch_half_pixel the same, but 0 where the output dim is 1;  asymmetric o / scale;
//   align_corners o * (in - 1) / (out - 1), 0 where out is 1.
// nearest rounds by `rounding`; linear weighs the two neighbours; places outside take the edge. (ONNX's Resize; computed in float32.)

#include <array>

#include "ops/op.h"

namespace headrace::ops {

struct Resize2dAttrs {
  enum class Mode : uint8_t { nearest, linear };
  enum class Coordinates : uint8_t { half_pixel, pytorch_half_pixel, asymmetric, align_corners };
  enum class Rounding : uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };
  Mode mode = Mode::nearest;
  Coordinates coordinates = Coordinates::half_pixel;
  Rounding rounding = Rounding::round_prefer_floor;
  std::array<int64_t, 2> size = {1, 1};      // output height, width
  std::array<float, 2> scale = {1.0f, 1.0f};
  bool operator==(const Resize2dAttrs&) const = default;
  std::string describe() const;
};
extern const Op resize_2d;

// Between which places of the input's axis (0: height, 1: width) place `out` of the output lies: (1 - weight) * first + weight * second.
// Nearest: both are the one, weight 0.
struct ResizePlace {
  int64_t first = 0, second = 0;
  float weight = 0.0f;
};
ResizePlace resize_place(const Resize2dAttrs& attrs, int axis, int64_t out, int64_t in_dim);

}  // namespace headrace::ops
