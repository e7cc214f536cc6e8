// A node whose op can write over an operand may do so where it is the last that reads it: the memory plan then gives both one place, which
// spares the arena a value and the caches its lines. What may be taken over (never an input, a constant or a view) the plan decides, which
// knows storages and sizes.
#include <algorithm>

#include "graph/passes.h"

namespace headrace::passes {
namespace {

Result<int> run(Graph& graph, const PassOptions&) {
  std::vector<NodeId> last_reader(graph.values.size(), kNone);
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].dead) continue;
    for (const ValueId input : graph.nodes[id].inputs) {
      if (input != kNone) last_reader[input] = static_cast<NodeId>(id);
    }
  }
  for (const GraphOutput& output : graph.outputs) last_reader[output.value] = kNone;
  int hits = 0;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    Node& node = graph.nodes[id];
    if (node.dead) continue;
    node.in_place = std::any_of(node.op->in_place.begin(), node.op->in_place.end(), [&](const std::pair<int, int>& pair) {
      if (pair.second >= static_cast<int>(node.inputs.size()) || node.inputs[pair.second] == kNone) return false;
      const ValueId input = node.inputs[pair.second];
      return graph.values[input].role == ValueRole::computed && last_reader[input] == static_cast<NodeId>(id);
    });
    hits += node.in_place ? 1 : 0;
  }
  return hits;
}

}  // namespace

extern const Pass in_place_pass;
const Pass in_place_pass = {"in_place", "Lets nodes write over operands that nothing reads after them.", run};

}  // namespace headrace::passes
