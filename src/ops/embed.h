#pragma once
// embed(ids i32 [T], table weight [vocab, H]) -> f32 [T, H]: row ids[t] decoded, times `scale`. An id outside the table
// gives zeros (the engine refuses it before).

#include "ops/op.h"

namespace headrace::ops {
struct EmbedAttrs {
  float scale = 1.0f;
  bool operator==(const EmbedAttrs&) const = default;
  std::string describe() const;
};
extern const Op embed;
}  // namespace headrace::ops
