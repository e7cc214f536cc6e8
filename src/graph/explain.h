#pragma once
// What `headrace inspect --plan` prints: which pass did what, where every node runs and with which kernel, where its outputs
// lie, and the three byte counts of the memory plan. As text for people and as JSON for scripts.

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/memory_plan.h"
#include "graph/passes.h"

namespace headrace {

// What is known about a planned graph; parts that are not there are left out of the page.
struct PlanFacts {
  std::vector<PassReport> passes;
  std::vector<const Kernel*> kernels;  // by node id; null for a view
  const MemoryPlan* memory = nullptr;
  Bindings bucket;                     // what the memory plan was made for
};

std::string explain_text(const Graph& graph, const PlanFacts& facts);
// {"passes": [{name, hits, ms, skipped}], "bucket": {T: ...}, "nodes": [{id, op, name, line, attrs, inputs, outputs: [{value,
// dtype, shape, bytes, offset, storage}], kernel: {name, device, isa, priority, layout, row_invariant}}],
// "outputs": {name: value}, "memory": {planned_peak_bytes, live_set_bound_bytes, naive_bytes, kv_bytes_per_token},
// "stages": n}
std::string explain_json(const Graph& graph, const PlanFacts& facts);

}  // namespace headrace
