#include "graph/dense_testing.h"

namespace headrace {
namespace {

using namespace pass_testing;

TEST(SimplifyShapes, MergesMovementsThatFollowEachOther) {
  Dense g;
  const ValueId x = g.input({2, 3, 4});
  g.output(g.reshape(g.reshape(x, {6, 4}), {3, 8}));
  g.output(g.transpose(g.transpose(x, {1, 2, 0}), {1, 0, 2}));
  g.output(g.slice(g.slice(x, 2, 1, 4), 2, 1, 2));
  g.output(g.expand(g.expand(g.reshape(x, {2, 1, 3, 4}), {2, 2, 3, 4}), {5, 2, 2, 3, 4}));
  g.output(g.concat({g.concat({x, x}, 1), x}, 1));
  EXPECT_GE(g.run("simplify_shapes"), 5);
  EXPECT_EQ(g.num(ops::reshape), 2);
  EXPECT_EQ(g.num(ops::transpose), 1);
  EXPECT_EQ(g.num(ops::slice), 1);
  EXPECT_EQ(g.num(ops::expand), 1);
  EXPECT_EQ(g.only(ops::concat).inputs.size(), 3u);
}

TEST(SimplifyShapes, RemovesWhatChangesNothing) {
  Dense g;
  const ValueId x = g.input({1, 3, 1, 4});
  ValueId y = g.transpose(g.transpose(x, {0, 3, 1, 2}), {0, 2, 3, 1});
  y = g.reshape(y, {1, 3, 1, 4});
  y = g.slice(y, 1, 0, 3);
  y = g.add(ops::pad, ops::PadAttrs{ops::PadAttrs::Mode::edge, Dims(4, 0), Dims(4, 0), 0}, {y});
  y = g.expand(y, {1, 3, 1, 4});
  y = g.add(ops::cast, ops::CastAttrs{DType::f32}, {g.add(ops::cast, ops::CastAttrs{DType::f64}, {y})});
  y = g.plus(g.times(g.over(y, g.number(1)), g.number(1)), g.constant({1, 1}, {0}));
  g.output(g.unary(UnaryKind::relu, g.mean(g.concat({y}, 1), {2})));
  EXPECT_GT(g.run("simplify_shapes"), 0);
  ASSERT_EQ(g.graph.nodes.size(), 1u) << g.graph.to_string();
  EXPECT_EQ(g.graph.nodes[0].inputs[0], x);
}

TEST(SimplifyShapes, KeepsNeutralNumbersThatGiveTheResultItsShape) {
  Dense g;
  g.output(g.plus(g.input({3}), g.constant({2, 1}, {0, 0})));
  EXPECT_EQ(g.run("simplify_shapes"), 0);
}

TEST(SimplifyShapes, MakesReshapesOfTransposesThatMoveNoElement) {
  Dense g;
  g.output(g.transpose(g.input({2, 5, 1, 1}), {0, 2, 3, 1}));
  EXPECT_EQ(g.run("simplify_shapes"), 1);
  EXPECT_EQ(g.num(ops::transpose), 0);
  EXPECT_EQ(g.num(ops::reshape), 1);
}

TEST(SimplifyShapes, RewritesPowersQuotientsAndDifferences) {
  Dense g;
  const ValueId x = g.unary(UnaryKind::abs, g.input({2, 3}));
  for (const double exponent : {2.0, 0.5, 1.0, -1.0}) g.output(g.power(x, exponent));
  g.output(g.over(x, g.number(8)));
  g.output(g.over(x, g.number(3)));  // not a power of two: stays exact
  g.output(g.minus(x, g.noise({3})));
  EXPECT_EQ(g.run("simplify_shapes"), 6);
  int num_quotients = 0;
  for (const Node& node : g.graph.nodes) {
    if (node.op != &ops::binary) continue;
    const BinaryKind kind = node.attrs.as<ops::BinaryAttrs>().kind;
    EXPECT_NE(kind, BinaryKind::pow);
    EXPECT_NE(kind, BinaryKind::sub);
    num_quotients += kind == BinaryKind::div ? 1 : 0;
  }
  EXPECT_EQ(num_quotients, 1);
}

TEST(SimplifyShapes, DropsAnExpandThatTheReaderWouldDoItself) {
  Dense g;
  const ValueId x = g.input({2, 3, 4});
  g.output(g.plus(x, g.expand(g.input({3, 1}), {2, 3, 4})));
  g.output(g.plus(g.input({3, 1}), g.expand(g.input({3, 1}), {3, 4})));  // the expand makes the shape
  EXPECT_EQ(g.run("simplify_shapes"), 1);
  EXPECT_EQ(g.num(ops::expand), 1);
}

TEST(SimplifyShapes, MakesASliceOfAGatherOfOneConstantIndex) {
  Dense g;
  const ValueId x = g.input({4, 3, 2});
  g.output(g.add(ops::gather, ops::GatherAttrs{0}, {x, g.constant({}, {-1}, DType::i64)}));
  g.output(g.add(ops::gather, ops::GatherAttrs{1}, {x, g.constant({1}, {1}, DType::i64)}));
  g.output(g.add(ops::gather, ops::GatherAttrs{1}, {x, g.constant({2}, {0, 2}, DType::i64)}));
  EXPECT_GE(g.run("simplify_shapes"), 2);
  EXPECT_EQ(g.num(ops::gather), 1);
}

TEST(SimplifyShapes, CutsTheColumnsOfAProjectionInsteadOfAnAxisOfItsReshape) {
  Dense g;
  const ValueId x = g.reshape(g.input({2, 5, 24}), {2, 5, 3, 2, 4});
  for (int64_t part = 0; part < 3; ++part) g.output(g.reshape(g.slice(x, 2, part, part + 1), {2, 5, 8}));
  g.output(g.slice(x, 3, 0, 1));  // an inner axis: its elements are not a window
  EXPECT_GE(g.run("simplify_shapes"), 3);
  EXPECT_EQ(g.num(ops::reshape), 1) << g.graph.to_string();
  EXPECT_EQ(g.num(ops::slice), 4);
}

TEST(SimplifyShapes, MovesConstantsAtOnce) {
  Dense g;
  const ValueId c = g.noise({3, 4, 5});
  const ValueId moved = g.slice(g.concat({g.transpose(c, {2, 0, 1}), g.noise({5, 3, 2})}, 2), 0, 1, 4);
  g.output(g.plus(g.input({1}), g.expand(g.reshape(moved, {3, 1, 18}), {3, 2, 18})));
  EXPECT_GT(g.run("simplify_shapes"), 0);
  EXPECT_EQ(g.graph.nodes.size(), 1u) << g.graph.to_string();
}

TEST(SimplifyShapes, LeavesGraphsOfSymbolicShapesAlone) {
  WithInput p(64);
  const ValueId slice = node(p.graph, ops::unary, ops::UnaryAttrs{}, {p.x}, "y");
  p.graph.set_output("y", slice);
  EXPECT_EQ(run_alone(p.graph, "simplify_shapes"), 0);
}

}  // namespace
}  // namespace headrace
