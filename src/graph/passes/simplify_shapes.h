#pragma once
// The rules of simplify_shapes for one node, for passes that leave such nodes behind.

#include "graph/rewriter.h"

namespace headrace::passes {

// What can stand for the node's one output: an input, a simpler node or a constant. kNone where no rule applies.
ValueId simplified(Rewriter& graph, const Node& node);
// Applies the rules to every node, in order, until none does. Returns how often one did; errors are the rewriter's.
int simplify_all(Rewriter& graph);

}  // namespace headrace::passes
