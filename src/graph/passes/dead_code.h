#pragma once
// Removal of nodes whose values nothing reads; also called where outputs are dropped (models::keep_outputs).

#include "graph/graph.h"

namespace headrace::passes {

// Removes and compacts; returns how many nodes went. A node that writes state or talks to other ranks never goes.
int remove_dead_code(Graph& graph);

}  // namespace headrace::passes
