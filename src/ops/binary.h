#pragma once
// binary(a f32 [...], b f32 [...]) -> f32 [...]: one function of two elements; dims align from the last and one of two is 1 or both are
// equal (numpy's rule). Any rank up to kMaxRank. In place where an operand has the output's shape.

#include <string>
#include <string_view>

#include "ops/op.h"

namespace headrace::ops {

enum class BinaryKind : uint8_t {
  add, sub, mul, div, min, max, pow,
  prelu,  // a < 0 ? a * b : a
};
std::string_view binary_name(BinaryKind kind);
struct BinaryAttrs {
  BinaryKind kind = BinaryKind::add;
  bool operator==(const BinaryAttrs&) const = default;
  std::string describe() const;
};
extern const Op binary;

}  // namespace headrace::ops
