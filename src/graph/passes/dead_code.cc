#include "graph/passes/dead_code.h"

#include <algorithm>

#include "graph/passes.h"
#include "graph/rewriter.h"

namespace headrace::passes {

int remove_dead_code(Graph& graph) {
  std::vector<bool> wanted(graph.values.size());
  for (const GraphOutput& output : graph.outputs) wanted[output.value] = true;
  int removed = 0;
  // Users stand after producers, so one walk from the back sees every use first.
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->dead) continue;
    const bool keep = !may_die(*node) ||
                      std::any_of(node->outputs.begin(), node->outputs.end(), [&](ValueId id) { return wanted[id]; });
    if (!keep) {
      node->dead = true;
      ++removed;
      continue;
    }
    for (const ValueId input : node->inputs) {
      if (input != kNone) wanted[input] = true;
    }
  }
  graph.compact();
  return removed;
}

namespace {
Result<int> run(Graph& graph, const PassOptions&) { return remove_dead_code(graph); }
}  // namespace

extern const Pass dead_code_pass;
const Pass dead_code_pass = {"dead_code", "Removes nodes whose values nothing reads.", run};

}  // namespace headrace::passes
