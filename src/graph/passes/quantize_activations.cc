// With the int8 policy a matmul over a block-quantized weight reads its input as 8-bit blocks: quantize_rows once per value,
// then matmul_q8 for each of its readers.
#include <map>

#include "graph/passes.h"
#include "ops/matmul.h"

namespace headrace::passes {
namespace {

bool takes_q8(const Graph& graph, const Node& node) {
  if (node.dead || node.op != &ops::matmul) return false;
  const ValueType& weight = graph.values[node.inputs[1]].type;
  if (weight.kind != ValueType::Kind::weight || weight.shape.rank() != 2) return false;
  return format_info(weight.format).block_elements >= ops::kActivationBlock &&
         weight.shape[1].constant() % ops::kActivationBlock == 0;
}

Result<int> run(Graph& graph, const PassOptions& options) {
  if (options.policy.activation != DtypePolicy::Activation::int8) return 0;
  std::map<ValueId, std::vector<ValueId>> quantized;  // (q, scale, sum) of a value
  int hits = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (!takes_q8(graph, graph.nodes[id])) continue;
    const Node matmul = graph.nodes[id];
    const ValueId x = matmul.inputs[0];
    if (!quantized.contains(x)) {
      HR_ASSIGN_OR_RETURN(quantized[x], graph.insert_node(id, ops::quantize_rows, ops::MatmulAttrs{}, {x},
                                                          graph.values[x].name + ".q8"));
      ++id;
    }
    std::vector<ValueId> inputs = quantized[x];
    inputs.insert(inputs.end(), matmul.inputs.begin() + 1, matmul.inputs.end());
    HR_ASSIGN_OR_RETURN(const std::vector<ValueId> output,
                        graph.insert_node(id, ops::matmul_q8, matmul.attrs, std::move(inputs), matmul.name));
    ++id;
    graph.replace_uses(matmul.outputs[0], output[0]);
    graph.nodes[id].dead = true;
    ++hits;
  }
  return hits;
}

}  // namespace

extern const Pass quantize_activations_pass;
const Pass quantize_activations_pass = {
    "quantize_activations", "With 8-bit activations: quantizes the input of matmuls over block-quantized weights.", run};

}  // namespace headrace::passes
