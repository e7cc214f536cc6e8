#pragma once
// pool_rows(x f32 [T, H], query_start i32 [S+1]) -> f32 [S, H]
// One row for each sequence, which owns the rows [query_start[s], query_start[s+1]) of x: their mean, the first (`cls`),
// the last, the largest of each column, or their sum over the root of their number. A sequence without rows gives zeros.
//
// l2_normalize(x f32 [S, H]) -> f32 [S, H]: x / max(|x|, 1e-12).

#include "ops/op.h"

namespace headrace::ops {
enum class PoolingKind : uint8_t { mean, cls, last, max, mean_sqrt_len };
std::string_view pooling_name(PoolingKind kind);
// The names above. Errors: unsupported.
Result<PoolingKind> parse_pooling(std::string_view name);

struct PoolRowsAttrs {
  PoolingKind kind = PoolingKind::mean;
  bool operator==(const PoolRowsAttrs&) const = default;
  std::string describe() const { return std::string(pooling_name(kind)); }
};
struct L2NormalizeAttrs {
  bool operator==(const L2NormalizeAttrs&) const = default;
  std::string describe() const { return {}; }
};
inline constexpr float kNormFloor = 1e-12f;

extern const Op pool_rows;
extern const Op l2_normalize;
}  // namespace headrace::ops
