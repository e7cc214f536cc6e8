#pragma once
// Reshapes and transposes in their simplest form, for passes that make them: nothing where nothing changes, one instead of two, a reshape
// instead of a transpose that moves no element, and constants moved at once.

#include "graph/rewriter.h"

namespace headrace::movements {

using Dims = std::vector<int64_t>;
using Perm = std::vector<int32_t>;

ValueId reshape(Rewriter& graph, ValueId x, const Dims& dims, const std::string& name);
// Axis i of the result is axis perm[i] of x.
ValueId transpose(Rewriter& graph, ValueId x, const Perm& perm, const std::string& name);

int64_t count(const Dims& dims);
bool is_identity(const Perm& perm);
Perm inverse(const Perm& perm);
// First `first`, then `second`, as one.
Perm then(const Perm& first, const Perm& second);
Dims permuted(const Dims& dims, const Perm& perm);
// Whether a transpose moves no element: the axes that are not 1 keep their order.
bool moves_nothing(const Dims& dims, const Perm& perm);

// Axes [begin, end) of a reshape's input that become axes [to_begin, to_end) of its output.
struct Group {
  size_t begin, end, to_begin, to_end;
};
// The finest groups, in order; axes of 1 that are left over belong to the last. Empty where a dim is 0.
std::vector<Group> groups_of(const Dims& from, const Dims& to);

}  // namespace headrace::movements
