#pragma once
// compare(a [...], b [...]) -> boolean [...]: how two elements of one type stand to each other; dims align as those of binary. Any type of
// real numbers, and booleans, for equal and not_equal; booleans alone for both and either; numbers alone for the others. What is compared
// with NaN is not equal, and neither less nor more.

#include <string>
#include <string_view>

#include "ops/op.h"

namespace headrace::ops {

enum class CompareKind : uint8_t { equal, not_equal, less, less_or_equal, both, either };
std::string_view compare_name(CompareKind kind);
struct CompareAttrs {
  CompareKind kind = CompareKind::equal;
  bool operator==(const CompareAttrs&) const = default;
  std::string describe() const { return std::string(compare_name(kind)); }
};
extern const Op compare;

}  // namespace headrace::ops
