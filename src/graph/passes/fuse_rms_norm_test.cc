#include "graph/dense_testing.h"
#include "ops/rms_norm.h"

namespace headrace {
namespace {

using namespace pass_testing;

TEST(FuseRmsNorm, KnowsQuotientsAndProductsWithInverseRoots) {
  for (int spelling = 0; spelling < 3; ++spelling) {
    Dense g;
    const ValueId x = g.input({2, 3, 8});
    const ValueId root = g.unary(UnaryKind::sqrt, g.plus(g.mean(g.power(x, 2), {2}), g.number(1e-6)));
    ValueId y = kNone;
    if (spelling == 0) y = g.over(x, root);
    if (spelling == 1) y = g.times(x, g.unary(UnaryKind::reciprocal, root));
    if (spelling == 2) y = g.times(g.over(g.number(1), root), x);
    g.output(g.times(g.noise({8}), y));
    EXPECT_EQ(g.run("fuse_rms_norm"), 1);
    ASSERT_EQ(g.graph.nodes.size(), 1u) << g.graph.to_string();
    EXPECT_EQ(g.graph.nodes[0].attrs, Attrs(ops::RmsNormAttrs{1e-6f, 0.0f}));
  }
}

TEST(FuseRmsNorm, LeavesTheRootOfAnotherValueAndOneThatSomethingElseReads) {
  Dense g;
  const ValueId x = g.input({4, 8}), z = g.input({4, 8});
  const auto root = [&](ValueId of) { return g.unary(UnaryKind::sqrt, g.plus(g.mean(g.times(of, of), {1}), g.number(1e-6))); };
  g.output(g.over(z, root(x)));
  const ValueId read = root(x);
  g.output(g.over(x, read));
  g.output(read);
  EXPECT_EQ(g.run("fuse_rms_norm"), 0);
}

}  // namespace
}  // namespace headrace
