// Nodes remember what they stand for: each rewrite hands the origins of what it replaces to the node that does the work now.
#include <gmock/gmock.h>

#include <set>

#include "graph/dense_testing.h"
#include "ops/layer_norm.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/sdpa.h"

namespace headrace {
namespace {

using namespace pass_testing;
using Names = std::set<std::string>;

Names names_of(const Graph& graph) {
  Names names;
  for (const Node& node : graph.nodes) names.insert(node.name);
  return names;
}

Names origins_of(const Node& node) { return {node.origins.begin(), node.origins.end()}; }

// The pass makes one node of `op` of the whole graph, movements aside, and that node stands for every node that was written.
void expect_one_stands_for_all(Dense& g, const std::string& pass, const Op& op) {
  SCOPED_TRACE(pass);
  const Names written = names_of(g.graph);
  ASSERT_GT(written.size(), 1u);
  ASSERT_GE(g.run(pass, 1e-3), 1);
  EXPECT_EQ(origins_of(g.only(op)), written) << g.graph.to_string();
}

TEST(Origins, ANodeThatWasBuiltStandsForItself) {
  Dense g;
  g.output(g.unary(UnaryKind::exp, g.input({2})));
  EXPECT_EQ(g.graph.nodes[0].origins, std::vector{g.graph.nodes[0].name});
}

TEST(Origins, AnActivationStandsForItsSpelling) {
  Dense g;
  const ValueId x = g.input({3, 7});
  const ValueId bell = g.plus(g.unary(UnaryKind::erf, g.over(x, g.number(1.41421356))), g.number(1));
  g.output(g.times(g.times(x, bell), g.number(0.5)));
  expect_one_stands_for_all(g, "fuse_activations", ops::unary);
}

TEST(Origins, NormsStandForTheirSpelling) {
  Dense layer;
  ValueId x = layer.input({2, 8});
  const ValueId centered = layer.minus(x, layer.mean(x, {1}));
  const ValueId variance = layer.plus(layer.mean(layer.times(centered, centered), {1}), layer.number(1e-5));
  layer.output(layer.times(layer.over(centered, layer.unary(UnaryKind::sqrt, variance)), layer.noise({8})));
  expect_one_stands_for_all(layer, "fuse_layer_norm", ops::layer_norm);

  Dense rms;
  x = rms.input({2, 8});
  const ValueId root = rms.unary(UnaryKind::sqrt, rms.plus(rms.mean(rms.power(x, 2), {1}), rms.number(1e-6)));
  rms.output(rms.times(rms.noise({8}), rms.over(x, root)));
  expect_one_stands_for_all(rms, "fuse_rms_norm", ops::rms_norm);

  Dense residual;
  const ValueId sum = residual.plus(residual.input({2, 8}), residual.input({2, 8}));
  residual.output(residual.add(ops::layer_norm, ops::LayerNormAttrs{}, {sum, residual.noise({8}), residual.noise({8})}));
  expect_one_stands_for_all(residual, "add_layer_norm", ops::add_layer_norm);
}

TEST(Origins, AConvolutionStandsForTheBatchNormThatItFolds) {
  Dense g;
  const ValueId y = g.add(ops::conv, ops::ConvAttrs{}, {g.input({1, 5, 5, 4}), g.noise({6, 4, 1, 1})});
  g.output(g.plus(g.times(y, g.noise({6})), g.noise({6})));
  expect_one_stands_for_all(g, "fold_affine", ops::conv);
}

TEST(Origins, AProductStandsForItsEpilogue) {
  Dense g;
  const ValueId product = g.gemm(g.input({3, 4}), g.noise({4, 5}));
  g.output(g.unary(UnaryKind::gelu_erf, g.plus(g.plus(product, g.noise({5})), g.input({3, 5}))));
  expect_one_stands_for_all(g, "fuse_epilogue", ops::gemm);
}

TEST(Origins, AMergedProductStandsForItsParts) {
  Dense g;
  const ValueId x = g.input({2, 5, 6});
  ops::SdpaAttrs heads;
  heads.heads = heads.kv_heads = 2;
  const ValueId q = g.gemm(x, g.noise({6, 8})), k = g.gemm(x, g.noise({6, 8})), v = g.gemm(x, g.noise({6, 8}));
  const Names parts = names_of(g.graph);
  g.output(g.add(ops::sdpa, heads, {q, k, v}));
  ASSERT_EQ(g.run("merge_gemms"), 1);
  EXPECT_EQ(origins_of(g.only(ops::gemm)), parts);
}

TEST(Origins, AttentionStandsForItsProductsItsSoftmaxAndTheMovementsOfHeads) {
  Dense g;
  const auto split = [&](ValueId rows) { return g.transpose(g.reshape(rows, {2, 5, 2, 4}), {0, 2, 1, 3}); };
  const ValueId q = split(g.input({2, 5, 8})), k = split(g.input({2, 5, 8})), v = split(g.input({2, 5, 8}));
  const ValueId scores = g.times(g.gemm(q, g.transpose(k, {0, 1, 3, 2})), g.number(0.5));
  g.output(g.reshape(g.transpose(g.gemm(g.softmax(scores), v), {0, 2, 1, 3}), {2, 5, 8}));
  expect_one_stands_for_all(g, "fuse_attention", ops::sdpa);
}

TEST(Origins, ATurnStandsForItsHalvesAndTables) {
  Dense g;
  const ValueId x = g.reshape(g.input({2, 5, 24}), {2, 5, 3, 8}), angles = g.input({2, 5, 4});
  const auto table = [&](UnaryKind kind) { return g.reshape(g.unary(kind, g.concat({angles, angles}, 2)), {2, 5, 1, 8}); };
  const ValueId half = g.concat({g.unary(UnaryKind::neg, g.slice(x, 3, 4, 8)), g.slice(x, 3, 0, 4)}, 3);
  const ValueId left = g.times(x, table(UnaryKind::cos)), right = g.times(half, table(UnaryKind::sin)), turned = g.plus(left, right);
  const auto name = [&](ValueId value) { return g.graph.values[static_cast<size_t>(value)].name; };
  const Names arithmetic = {name(half), name(left), name(right), name(turned)};
  g.output(turned);
  ASSERT_EQ(g.run("fuse_rotary"), 1);
  EXPECT_THAT(origins_of(g.only(ops::rotary)), ::testing::IsSupersetOf(arithmetic));
}

TEST(Origins, AnActivationBehindAMovedTransposeKeepsItsOwn) {
  Dense g;
  const ValueId image = g.image_conv(g.input({1, 3, 8, 6}), 8);
  const ValueId active = g.unary(UnaryKind::relu, image);
  const std::string name = g.graph.values[static_cast<size_t>(active)].name;
  g.output(g.image_conv(active, 3));
  ASSERT_GT(g.run("propagate_transposes"), 0);
  EXPECT_TRUE(origins_of(g.only(ops::unary)).contains(name)) << g.graph.to_string();
}

TEST(Origins, OneOfTwoEqualNodesStandsForBoth) {
  Dense g;
  const ValueId x = g.input({2});
  const ValueId a = g.unary(UnaryKind::exp, x), b = g.unary(UnaryKind::exp, x);
  g.output(a);
  g.output(b);
  expect_one_stands_for_all(g, "common_subexpressions", ops::unary);
}

}  // namespace
}  // namespace headrace
