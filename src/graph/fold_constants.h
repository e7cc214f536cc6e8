#pragma once
// Nodes of constants, computed when the graph is built. Movements work on bytes, so that a large weight is transposed or converted in
// one pass over memory; everything else goes through the op's float64 reference, within limits of size and work.

#include "graph/rewriter.h"

namespace headrace {

// The constants that stand for the outputs of `node`. Empty where it may not be folded: an input is not constant, the op has effects or
// no reference, the dtype is not a number, or the result is too large. A result may have 65,536 elements, or as many as all inputs
// together. dequantize_linear of 8 bits is left, so that fuse_qdq sees the weight, but `with_weights`. Errors are the rewriter's: what
// the reference's node has wrong (internal).
std::vector<ValueId> fold_constants(Rewriter& graph, const Node& node, bool with_weights = false);

// The transposed constant; what the passes that move transposes ask for. Any dtype with bytes.
ValueId transposed_constant(Rewriter& graph, ValueId constant, const std::vector<int32_t>& perm);
// The constant under other dims: the same bytes.
ValueId reshaped_constant(Rewriter& graph, ValueId constant, const std::vector<int64_t>& dims);

}  // namespace headrace
