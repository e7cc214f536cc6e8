#pragma once
// slice_columns(x [..., C]) -> [..., end - begin]: a view, no kernel. Splits merged projections.
// gather_rows(x f32 [T, H], rows i32 [R]) -> f32 [R, H].

#include "ops/op.h"

namespace headrace::ops {
struct SliceColumnsAttrs {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const SliceColumnsAttrs&) const = default;
  std::string describe() const;
};
struct GatherRowsAttrs {
  bool operator==(const GatherRowsAttrs&) const = default;
  std::string describe() const { return {}; }
};
extern const Op slice_columns;
extern const Op gather_rows;
}  // namespace headrace::ops
