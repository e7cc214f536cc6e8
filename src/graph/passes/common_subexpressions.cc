// Two pure nodes with the same op, attributes and inputs compute the same values: the later one goes.
#include <map>
#include <utility>

#include "graph/passes.h"

namespace headrace::passes {
namespace {

Result<int> run(Graph& graph, const PassOptions&) {
  std::map<std::pair<const Op*, std::vector<ValueId>>, std::vector<NodeId>> seen;
  int hits = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    Node& node = graph.nodes[id];
    // What a reader of state sees depends on the writes before it.
    if (node.dead || !node.op->effects.pure() || node.op->effects.reads_state) continue;
    std::vector<NodeId>& candidates = seen[{node.op, node.inputs}];
    NodeId same = kNone;
    for (const NodeId candidate : candidates) {
      if (graph.nodes[candidate].attrs == node.attrs) same = candidate;
    }
    if (same == kNone) {
      candidates.push_back(id);
      continue;
    }
    for (size_t index = 0; index < node.outputs.size(); ++index) {
      graph.replace_uses(node.outputs[index], graph.nodes[same].outputs[index]);
    }
    node.dead = true;
    ++hits;
  }
  return hits;
}

}  // namespace

extern const Pass common_subexpressions_pass;
const Pass common_subexpressions_pass = {"common_subexpressions", "Computes equal pure expressions once.", run};

}  // namespace headrace::passes
