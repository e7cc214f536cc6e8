// A pure node whose inputs are all constants is computed now and becomes a constant.
#include "graph/fold_constants.h"
#include "graph/passes.h"

namespace headrace::passes {
namespace {

Result<int> run(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  int hits = 0;
  for (NodeId id = 0; id < rewriter.num_nodes() && rewriter.ok(); ++id) {
    const Node& node = rewriter.node(id);
    if (node.dead) continue;
    const std::vector<ValueId> folded = fold_constants(rewriter, node);
    for (size_t index = 0; index < folded.size(); ++index) rewriter.replace(node.outputs[index], folded[index]);
    hits += folded.empty() ? 0 : 1;
  }
  return rewriter.finish(hits);
}

}  // namespace

extern const Pass constant_folding_pass;
const Pass constant_folding_pass = {"constant_folding", "Computes nodes of constants when the graph is built.", run};

}  // namespace headrace::passes
