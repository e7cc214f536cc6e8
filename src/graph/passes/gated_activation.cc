// activation(gate) * up becomes gated_activation(gate, up) when nothing else reads the activated gate.
#include <algorithm>

#include "graph/passes.h"
#include "ops/elementwise.h"

namespace headrace::passes {
namespace {

Result<int> run(Graph& graph, const PassOptions&) {
  int hits = 0;
  // Users by value id: ids of nodes move with each insertion, how many users a value has does not.
  const auto users = graph.users();
  const auto fusable = [&](ValueId value) {
    if (value >= static_cast<ValueId>(users.size())) return false;
    const NodeId producer = graph.values[value].producer;
    return producer != kNone && graph.nodes[producer].op == &ops::unary && users[value].size() == 1 &&
           std::none_of(graph.outputs.begin(), graph.outputs.end(),
                        [&](const GraphOutput& output) { return output.value == value; });
  };
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    const Node mul = graph.nodes[id];
    if (mul.dead || mul.op != &ops::mul || mul.inputs[0] == mul.inputs[1]) continue;
    const int side = fusable(mul.inputs[0]) ? 0 : 1;
    if (!fusable(mul.inputs[side])) continue;
    const NodeId producer = graph.values[mul.inputs[side]].producer;
    const Node activation = graph.nodes[producer];
    HR_ASSIGN_OR_RETURN(const std::vector<ValueId> fused,
                        graph.insert_node(id, ops::gated_activation, activation.attrs,
                                          {activation.inputs[0], mul.inputs[1 - side]}, mul.name));
    graph.nodes[id].absorb(graph.nodes[producer]);
    ++id;
    graph.replace_uses(mul.outputs[0], fused[0]);
    graph.nodes[producer].dead = true;
    graph.nodes[id].dead = true;
    ++hits;
  }
  return hits;
}

}  // namespace

extern const Pass gated_activation_pass;
const Pass gated_activation_pass = {"gated_activation", "Fuses an MLP's activation with its product.", run};

}  // namespace headrace::passes
