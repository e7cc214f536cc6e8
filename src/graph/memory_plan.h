#pragma once
// Where each computed value lives in the arena, for one bucket (every symbol at a bound). Frozen: offsets do not depend on
// the step. Planning a language model takes about a millisecond, one whose largest live set is hard to reach up to ten.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace headrace {

inline constexpr int64_t kArenaAlignment = 64;

struct MemoryPlan {
  std::vector<int64_t> value_offset;    // by value id; -1: no storage of its own (inputs, weights, states, views)
  std::vector<ValueId> storage_of;      // by value id: whose storage it uses (itself, a view's base, an in-place input)
  std::vector<int64_t> scratch_offset;  // by node id; -1: none
  int64_t arena_bytes = 0;              // the planned peak
  int64_t live_set_bound = 0;           // the largest sum of bytes alive in one stage: no plan can be smaller
  int64_t naive_bytes = 0;              // every value and scratch in a place of its own
  int32_t num_stages = 0;               // those of the nodes: a barrier each
};

// `scratch_bytes[node]`: what the selected kernel of each node needs under these bindings. In-place pairs of ops are used
// where the node may (Node::in_place) and the input dies at it, and so is `overwritten[node]`, an input whose place output 0 may take (-1:
// none; empty: none anywhere); views share their base's storage and keep it alive. Inputs of the graph are never overwritten.
// `stage_of_node` (empty: each node alone) rises along the nodes; nodes of one stage may run at once, so that no storage passes
// from one value to another inside a stage but in place.
MemoryPlan plan_memory(const Graph& graph, const Bindings& bucket, const std::vector<int64_t>& scratch_bytes,
                       const std::vector<int32_t>& stage_of_node = {}, const std::vector<int>& overwritten = {});

}  // namespace headrace
