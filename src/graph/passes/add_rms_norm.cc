// add followed by rms_norm of the sum becomes add_rms_norm: the residual stream is read and written once.
#include "ops/rms_norm.h"

#include "graph/passes.h"
#include "ops/elementwise.h"

namespace headrace::passes {
namespace {

Result<int> run(Graph& graph, const PassOptions&) {
  int hits = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (graph.nodes[id].dead || graph.nodes[id].op != &ops::rms_norm) continue;
    const NodeId producer = graph.values[graph.nodes[id].inputs[0]].producer;
    if (producer == kNone || graph.nodes[producer].dead || graph.nodes[producer].op != &ops::add) continue;

    const Node sum = graph.nodes[producer], norm = graph.nodes[id];
    // In place of the addition, so that every reader of the sum still stands behind it.
    HR_ASSIGN_OR_RETURN(const std::vector<ValueId> fused,
                        graph.insert_node(producer, ops::add_rms_norm, norm.attrs,
                                          {sum.inputs[1], sum.inputs[0], norm.inputs[1]}, norm.name));
    graph.nodes[producer].absorb(graph.nodes[producer + 1]);
    ++id;
    graph.replace_uses(sum.outputs[0], fused[0]);
    graph.replace_uses(norm.outputs[0], fused[1]);
    graph.nodes[producer + 1].dead = true;
    graph.nodes[id].dead = true;
    ++hits;
  }
  return hits;
}

}  // namespace

extern const Pass add_rms_norm_pass;
const Pass add_rms_norm_pass = {"add_rms_norm", "Fuses a residual addition with the norm that reads it.", run};

}  // namespace headrace::passes
