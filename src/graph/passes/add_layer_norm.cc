// add followed by layer_norm of the sum becomes add_layer_norm: the residual stream is read and written once.
#include "graph/match.h"
#include "graph/passes.h"
#include "ops/layer_norm.h"

namespace headrace::passes {
namespace {

Result<int> run(Graph& graph, const PassOptions&) {
  if (!has_constant_shapes(graph)) return 0;
  Rewriter rewriter(graph);
  int hits = 0;
  for (NodeId id = 0; id < rewriter.num_nodes() && rewriter.ok(); ++id) {
    const Node& norm = rewriter.node(id);
    if (norm.dead || norm.op != &ops::layer_norm) continue;
    const Node* sum = match::of(rewriter, norm.inputs[0], ops::binary);
    if (!match::is_binary(sum, ops::BinaryKind::add)) continue;
    if (!(rewriter.type(sum->inputs[0]) == rewriter.type(sum->inputs[1]))) continue;  // one of them broadcasts
    const std::vector<ValueId> fused = rewriter.add_all(ops::add_layer_norm, norm.attrs,
                                                        {sum->inputs[0], sum->inputs[1], norm.inputs[1], norm.inputs[2]}, norm.name, 2);
    rewriter.replace(norm.outputs[0], fused[1]);
    rewriter.replace(sum->outputs[0], fused[0]);
    ++hits;
  }
  return rewriter.finish(hits);
}

}  // namespace

extern const Pass add_layer_norm_pass;
const Pass add_layer_norm_pass = {"add_layer_norm", "Fuses a residual addition with the layer_norm that reads it.", run};

}  // namespace headrace::passes
