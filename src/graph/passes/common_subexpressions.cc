// Two pure nodes with the same op, attributes and inputs compute the same values: the later one goes.
#include <algorithm>
#include <map>
#include <tuple>

#include "graph/passes.h"
#include "graph/rewriter.h"
#include "ops/host.h"

namespace headrace::passes {
namespace {

// What a reader of state sees depends on the writes before it.
bool repeatable(const Node& node) {
  if (node.dead || !node.op->effects.pure() || node.op->effects.reads_state) return false;
  return node.op != &ops::host || node.attrs.as<ops::HostAttrs>().pure;
}

Result<int> run(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  // With the printed attributes, so that a thousand slices of one value are told apart quickly; they may print less than they are.
  std::map<std::tuple<const Op*, std::vector<ValueId>, std::string>, std::vector<NodeId>> seen;
  int hits = 0;
  for (NodeId id = 0; id < rewriter.num_nodes(); ++id) {
    const Node& node = rewriter.node(id);
    if (!repeatable(node)) continue;
    std::vector<NodeId>& candidates = seen[{node.op, node.inputs, node.attrs.describe()}];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](NodeId candidate) {
      return !rewriter.node(candidate).dead && rewriter.node(candidate).attrs == node.attrs;
    });
    if (same == candidates.end()) {
      candidates.push_back(id);
      continue;
    }
    const Node& first = rewriter.node(*same);
    for (size_t index = 0; index < node.outputs.size(); ++index) rewriter.replace(node.outputs[index], first.outputs[index]);
    ++hits;
  }
  return rewriter.finish(hits);
}

}  // namespace

extern const Pass common_subexpressions_pass;
const Pass common_subexpressions_pass = {"common_subexpressions", "Computes equal pure expressions once.", run};

}  // namespace headrace::passes
