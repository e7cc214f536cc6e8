#pragma once
// reduce(x f32 [...]) -> f32: over `axes` (rising), which become 1 or, without keep_dims, go. An empty axis gives the kind's neutral
// element (mean: NaN). softmax(x f32 [...]) -> f32 [...]: over the last axis, exp(x - max) / sum; log: its logarithm. In place is allowed.

#include <vector>

#include "ops/op.h"

namespace headrace::ops {

struct ReduceAttrs {
  enum class Kind : uint8_t { sum, mean, max, min, prod, l1, l2, sum_square, log_sum_exp };
  Kind kind = Kind::sum;
  std::vector<int32_t> axes;
  bool keep_dims = true;
  bool operator==(const ReduceAttrs&) const = default;
  std::string describe() const;
};
struct SoftmaxAttrs {
  bool log = false;
  bool operator==(const SoftmaxAttrs&) const = default;
  std::string describe() const { return log ? "log" : ""; }
};
extern const Op reduce;
extern const Op softmax;

}  // namespace headrace::ops
