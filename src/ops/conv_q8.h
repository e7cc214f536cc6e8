#pragma once
// conv_q8(x u8|i8 [N, H, W, C], weight i8 [O, C / groups, KH, KW], scale f32 [O], bias?, residual?) -> [N, OH, OW, O]: ops/conv.h's conv of
// 8-bit numbers, with the ends of ops/q8.h. Pads stand for 0: they hold x_zero.

#include "ops/conv.h"
#include "ops/q8.h"

namespace headrace::ops {

struct ConvQ8Attrs {
  ConvAttrs conv;  // without an epilogue
  Q8ProductAttrs q8;
  bool operator==(const ConvQ8Attrs&) const = default;
  std::string describe() const { return conv.describe() + " " + q8.describe(); }
};
extern const Op conv_q8;

}  // namespace headrace::ops
