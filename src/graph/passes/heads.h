#pragma once
// Heads as graphs have them, [B, H, S, D], and as attention reads them, [B, S, H * D].

#include <string>

#include "graph/rewriter.h"

namespace headrace::passes {

// Whether [B, H, S, D] as [B, S, H * D] moves no element: a transpose made it from that.
bool lies_by_heads(Rewriter& graph, ValueId value);
// [B, H, S, D] -> [B, S, H * D]
ValueId flat_heads(Rewriter& graph, ValueId value, const std::string& name);
// [B, S, H * D] -> [B, H, S, D]
ValueId split_heads(Rewriter& graph, ValueId value, int64_t heads, const std::string& name);

}  // namespace headrace::passes
