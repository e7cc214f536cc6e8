// x / sqrt(mean(x^2) + eps) * scale, spelled with simpler operators, becomes rms_norm over rows. A scale that is not there counts as 1.
#include "ops/rms_norm.h"

#include "graph/match.h"
#include "graph/passes.h"
#include "graph/passes/normalization.h"

namespace headrace::passes {
namespace {

Result<int> run(Graph& graph, const PassOptions&) {
  if (!has_constant_shapes(graph)) return 0;
  Rewriter rewriter(graph);
  int norms = 0;  // what a norm takes in is no hit of its own
  rewriter.replace_each([&](const Node& node) {
    if (node.op != &ops::binary) return kNone;
    const auto norm = match_root_mean_square_norm(rewriter, node);
    if (!norm) return fold_into_norm(rewriter, ops::rms_norm, node);
    ++norms;
    const std::vector<double> ones(static_cast<size_t>(norm->width), 1.0);
    return add_norm(rewriter, ops::rms_norm, ops::RmsNormAttrs{norm->eps, 0.0f}, norm->x, norm->width, {ones}, node.name);
  });
  return rewriter.finish(norms);
}

}  // namespace

extern const Pass fuse_rms_norm_pass;
const Pass fuse_rms_norm_pass = {"fuse_rms_norm", "Makes one rms_norm of the operators that spell it, with its scale.", run};

}  // namespace headrace::passes
