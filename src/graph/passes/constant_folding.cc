// A pure node whose inputs are all constants is computed now, by its op's reference, and becomes a constant.
#include <algorithm>

#include "graph/interpret.h"
#include "graph/passes.h"

namespace headrace::passes {
namespace {

// Constants live in the graph, on the heap and in every copy of it: larger results are left to run.
constexpr int64_t kMaxElements = 65536;

bool foldable(const Graph& graph, const Node& node) {
  const Effects& effects = node.op->effects;
  if (node.dead || !effects.pure() || effects.reads_state || node.op->reference == nullptr) return false;
  if (node.inputs.empty() || node.outputs.empty()) return false;
  for (const ValueId input : node.inputs) {
    if (input != kNone && graph.values[input].role != ValueRole::constant) return false;
  }
  for (const ValueId output : node.outputs) {
    const ValueType& type = graph.values[output].type;
    if (type.dtype != DType::f32 && type.dtype != DType::i32) return false;
    int64_t elements = 1;
    for (const Dim& dim : type.shape) {
      // Each factor is checked before it is multiplied: no product overflows.
      if (!dim.is_constant() || dim.constant() > kMaxElements) return false;
      elements *= dim.constant();
      if (elements > kMaxElements) return false;
    }
  }
  return true;
}

Result<int> run(Graph& graph, const PassOptions&) {
  int hits = 0;
  for (Node& node : graph.nodes) {
    if (!foldable(graph, node)) continue;
    std::vector<HostValue> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(input == kNone ? HostValue{} : constant_on_host(graph.values[input]));
    }
    HR_ASSIGN_OR_RETURN(const std::vector<HostTensor> results, interpret_node(graph, node, inputs, Bindings()));
    for (size_t index = 0; index < results.size(); ++index) {
      // The node runs in float32: its constant must not carry more.
      std::vector<double> data = results[index].values;
      if (results[index].dtype == DType::f32) {
        for (double& value : data) value = static_cast<float>(value);
      }
      const ValueId folded = graph.add_constant(graph.values[node.outputs[index]].name, results[index].dtype,
                                                results[index].dims, std::move(data));
      graph.replace_uses(node.outputs[index], folded);
    }
    node.dead = true;
    ++hits;
  }
  return hits;
}

}  // namespace

extern const Pass constant_folding_pass;
const Pass constant_folding_pass = {"constant_folding", "Computes nodes of constants when the graph is built.", run};

}  // namespace headrace::passes
