#include "ops/layer_norm.h"

#include "graph/dense_testing.h"

namespace headrace {
namespace {

using namespace pass_testing;

// mean((x - mean(x))^2) + eps
ValueId variance(Dense& g, ValueId centered, std::vector<int32_t> axes, bool power) {
  const ValueId square = power ? g.power(centered, 2) : g.times(centered, centered);
  return g.plus(g.mean(square, std::move(axes)), g.number(1e-5));
}

TEST(FuseLayerNorm, KnowsQuotientsAndProductsWithInverseRoots) {
  for (int spelling = 0; spelling < 4; ++spelling) {
    Dense g;
    const ValueId x = g.input({2, 3, 8}), centered = g.minus(x, g.mean(x, {2}));
    const ValueId sum = variance(g, centered, {2}, spelling == 1);
    ValueId y = kNone;
    if (spelling == 0) y = g.over(centered, g.unary(UnaryKind::sqrt, sum));
    if (spelling == 1) y = g.over(centered, g.power(sum, 0.5));
    if (spelling == 2) y = g.times(g.unary(UnaryKind::reciprocal, g.unary(UnaryKind::sqrt, sum)), centered);
    if (spelling == 3) y = g.times(centered, g.power(sum, -0.5));
    g.output(g.plus(g.noise({8}), g.times(y, g.noise({8}))));
    EXPECT_EQ(g.run("fuse_layer_norm"), 1);
    ASSERT_EQ(g.graph.nodes.size(), 1u) << g.graph.to_string();
    EXPECT_EQ(g.graph.nodes[0].attrs, Attrs(ops::LayerNormAttrs{1e-5f}));
  }
}

TEST(FuseLayerNorm, CountsAMissingScaleAsOneAndAMissingBiasAsZero) {
  Dense g;
  const ValueId x = g.input({4, 8}), centered = g.minus(x, g.mean(x, {1}));
  g.output(g.over(centered, g.unary(UnaryKind::sqrt, variance(g, centered, {1}, true))));
  EXPECT_EQ(g.run("fuse_layer_norm"), 1);
  const Node& norm = g.only(ops::layer_norm);
  EXPECT_EQ(constant_values(g.graph.values[static_cast<size_t>(norm.inputs[1])]), std::vector<double>(8, 1.0));
  EXPECT_EQ(constant_values(g.graph.values[static_cast<size_t>(norm.inputs[2])]), std::vector<double>(8, 0.0));
}

TEST(FuseLayerNorm, KnowsTheSpellingWithTwoProducts) {
  Dense g;
  const ValueId x = g.input({2, 3, 8}), mean = g.mean(x, {2}), centered = g.minus(x, mean);
  const ValueId inverse = g.unary(UnaryKind::reciprocal, g.unary(UnaryKind::sqrt, variance(g, centered, {2}, false)));
  const ValueId scaled = g.times(inverse, g.noise({8}));
  g.output(g.plus(g.times(x, scaled), g.minus(g.noise({8}), g.times(mean, scaled))));
  EXPECT_EQ(g.run("fuse_layer_norm"), 1);
  EXPECT_EQ(g.graph.nodes.size(), 1u) << g.graph.to_string();
}

TEST(FuseLayerNorm, NormalizesSeveralLastAxesAsOne) {
  Dense g;
  const ValueId x = g.input({2, 3, 4, 5}), centered = g.minus(x, g.mean(x, {2, 3}));
  g.output(g.times(g.over(centered, g.unary(UnaryKind::sqrt, variance(g, centered, {2, 3}, false))), g.noise({4, 5})));
  EXPECT_EQ(g.run("fuse_layer_norm"), 1);
  EXPECT_EQ(g.num(ops::layer_norm), 1);
  EXPECT_EQ(g.num(ops::binary), 0);
}

TEST(FuseLayerNorm, LeavesOtherAxesOtherMeansAndVectorsOfOtherAxes) {
  Dense g;
  const ValueId x = g.input({8, 8}), z = g.input({8, 8});
  const ValueId columns = g.minus(x, g.mean(x, {0}));
  g.output(g.over(columns, g.unary(UnaryKind::sqrt, variance(g, columns, {0}, false))));
  const ValueId other = g.minus(x, g.mean(z, {1}));
  g.output(g.over(other, g.unary(UnaryKind::sqrt, variance(g, other, {1}, false))));
  EXPECT_EQ(g.run("fuse_layer_norm"), 0);

  Dense h;
  const ValueId y = h.input({8, 8}), centered = h.minus(y, h.mean(y, {1}));
  h.output(h.times(h.over(centered, h.unary(UnaryKind::sqrt, variance(h, centered, {1}, false))), h.noise({8, 1})));
  EXPECT_EQ(h.run("fuse_layer_norm"), 1);
  EXPECT_EQ(h.num(ops::binary), 1);
}

}  // namespace
}  // namespace headrace
