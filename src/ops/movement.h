#pragma once
// Ops that move elements and compute nothing. Any dtype with bytes of its own (all but string), any rank up to kMaxRank.
//
// reshape(x) -> the same elements under `dims`: a view of packed x.
// transpose(x) -> axis i of the output is axis perm[i] of x.
// concat(x0, x1, ...) -> joined along `axis`; the other dims agree.
// slice(x) -> element i of axis a is element begin[a] + i * step[a] of x, for i below size[a]; steps may be negative.
// pad(x) -> before[a] elements, x, after[a] elements along each axis a; both at least 0. constant: `value`; edge: the nearest element;
//   reflect: mirrored without the edge (a pad is then below the dim); wrap: from the other side.
// expand(x) -> broadcast to `dims` by numpy's rule.
// gather(x, index i32 or i64 [...]) -> axis `axis` of x is replaced by index's axes; an index may count from the end. An index outside
//   [-dim, dim) is reported to StepErrors.
// where(condition boolean, a, b) -> a or b by numpy's rule.
// cast(x) -> `to`: among f32, f16, bf16, f64, i8, u8, i32, i64, boolean, as ONNX's Cast has it (floats to integers truncate; what lies
//   outside the integer's range has no meaning; nonzero is true).

#include <vector>

#include "ops/op.h"

namespace headrace::ops {

struct ReshapeAttrs {
  std::vector<int64_t> dims;
  bool operator==(const ReshapeAttrs&) const = default;
  std::string describe() const;
};
struct TransposeAttrs {
  std::vector<int32_t> perm;
  bool operator==(const TransposeAttrs&) const = default;
  std::string describe() const;
};
struct ConcatAttrs {
  int32_t axis = 0;
  bool operator==(const ConcatAttrs&) const = default;
  std::string describe() const;
};
struct SliceAttrs {
  std::vector<int64_t> begin, step, size;  // one for each axis
  bool operator==(const SliceAttrs&) const = default;
  std::string describe() const;
};
struct PadAttrs {
  enum class Mode : uint8_t { constant, edge, reflect, wrap };
  Mode mode = Mode::constant;
  std::vector<int64_t> before, after;  // one for each axis
  double value = 0;
  bool operator==(const PadAttrs&) const = default;
  std::string describe() const;
};
struct ExpandAttrs {
  std::vector<int64_t> dims;
  bool operator==(const ExpandAttrs&) const = default;
  std::string describe() const;
};
struct GatherAttrs {
  int32_t axis = 0;
  bool operator==(const GatherAttrs&) const = default;
  std::string describe() const;
};
struct WhereAttrs {
  bool operator==(const WhereAttrs&) const = default;
  std::string describe() const { return {}; }
};
struct CastAttrs {
  DType to = DType::f32;
  bool operator==(const CastAttrs&) const = default;
  std::string describe() const { return std::string(dtype_name(to)); }
};
extern const Op reshape;  // a view
extern const Op transpose;
extern const Op concat;
extern const Op slice;
extern const Op pad;
extern const Op expand;
extern const Op gather;
extern const Op where;
extern const Op cast;

}  // namespace headrace::ops
