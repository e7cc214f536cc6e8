#include "graph/dense_testing.h"
#include "ops/layer_norm.h"

namespace headrace {
namespace {

using namespace pass_testing;

TEST(AddLayerNorm, FusesTheResidualAdditionWithItsNorm) {
  Dense g;
  const ValueId sum = g.plus(g.input({2, 3, 8}), g.input({2, 3, 8}));
  const ValueId between = g.unary(UnaryKind::tanh, sum);
  const ValueId norm = g.add(ops::layer_norm, ops::LayerNormAttrs{}, {sum, g.noise({8}), g.noise({8})});
  g.output(g.plus(sum, norm));
  g.output(between);
  EXPECT_EQ(g.run("add_layer_norm"), 1);
  EXPECT_EQ(g.num(ops::layer_norm), 0);
  EXPECT_EQ(g.num(ops::add_layer_norm), 1);
  EXPECT_EQ(g.graph.nodes.size(), 3u);
}

TEST(AddLayerNorm, LeavesASumThatBroadcasts) {
  Dense g;
  const ValueId sum = g.plus(g.input({2, 3, 8}), g.input({3, 8}));
  g.output(g.add(ops::layer_norm, ops::LayerNormAttrs{}, {sum, g.noise({8}), g.noise({8})}));
  EXPECT_EQ(g.run("add_layer_norm"), 0);
}

}  // namespace
}  // namespace headrace
