#include "graph/dense_testing.h"
#include "ops/pool_2d.h"

namespace headrace {
namespace {

using namespace pass_testing;

TEST(PropagateTransposes, KeepsOneTransposeAtTheInputOfAChainOfConvolutions) {
  Dense g;
  ValueId x = g.image_conv(g.input({2, 3, 8, 6}), 8);
  x = g.unary(UnaryKind::relu, g.plus(g.times(x, g.noise({1, 8, 1, 1})), g.noise({8, 1, 1})));  // as batch norm
  const ValueId branch = g.image_conv(g.unary(UnaryKind::relu, g.image_conv(x, 8)), 8);
  x = g.unary(UnaryKind::relu, g.plus(branch, x));
  x = g.concat({x, g.image_conv(x, 4)}, 1);
  const ValueId gate = g.unary(UnaryKind::sigmoid, g.image_conv(g.mean(x, {2, 3}), 12, 1, 0));  // squeeze and excitation
  x = g.times(x, gate);
  x = g.slice(g.add(ops::pad, ops::PadAttrs{ops::PadAttrs::Mode::constant, {0, 0, 1, 0}, {0, 0, 0, 2}, 0.5}, {x}), 2, 1, 7);
  g.output(g.reshape(g.mean(x, {2, 3}), {2, 12}));
  EXPECT_GT(g.run("propagate_transposes"), 0);
  const Node& only = g.only(ops::transpose);
  EXPECT_EQ(g.graph.values[static_cast<size_t>(only.inputs[0])].role, ValueRole::input);
}

TEST(PropagateTransposes, EndsWithOneTransposeBeforeAnImageThatIsAnOutput) {
  Dense g;
  ValueId x = g.image_conv(g.input({1, 3, 8, 6}), 8);
  x = g.image_conv(g.unary(UnaryKind::relu, x), 3);
  g.output(g.unary(UnaryKind::tanh, x));
  EXPECT_GT(g.run("propagate_transposes"), 0);
  EXPECT_EQ(g.num(ops::transpose), 2);
  EXPECT_EQ(g.graph.nodes.back().op, &ops::transpose);
}

TEST(PropagateTransposes, GoesPastReshapesThatSplitAndMergeWholeAxes) {
  Dense g;
  // A patch embedding and a detection head.
  const ValueId patches = g.image_conv(g.input({1, 3, 8, 8}), 6, 2, 0);
  g.output(g.plus(g.transpose(g.reshape(patches, {1, 6, 49}), {0, 2, 1}), g.noise({1, 49, 6})));
  const ValueId head = g.image_conv(g.input({1, 3, 4, 5}), 12, 1, 0);
  g.output(g.transpose(g.reshape(head, {1, 3, 4, 4, 5}), {0, 1, 3, 4, 2}));
  EXPECT_GT(g.run("propagate_transposes"), 0);
  EXPECT_EQ(g.num(ops::transpose), 3) << g.graph.to_string();
}

TEST(PropagateTransposes, KeepsAChannelShuffleWithinItsLayout) {
  Dense g;
  ValueId x = g.image_conv(g.input({1, 4, 6, 5}), 8, 1, 0);
  x = g.reshape(g.transpose(g.reshape(x, {1, 2, 4, 6, 5}), {0, 2, 1, 3, 4}), {1, 8, 6, 5});
  g.output(g.mean(g.image_conv(x, 4), {2, 3}, false));
  EXPECT_GT(g.run("propagate_transposes"), 0);
  EXPECT_EQ(g.num(ops::transpose), 2) << g.graph.to_string();  // at the input, and the shuffle
}

TEST(PropagateTransposes, MovesUpWhereThatCancelsMore) {
  Dense g;
  const ValueId x = g.input({1, 4, 6, 5});
  const ValueId sum = g.unary(UnaryKind::relu, g.plus(g.image_conv(x, 4), x));
  g.output(g.mean(g.image_conv(sum, 4), {2, 3}, false));
  EXPECT_GT(g.run("propagate_transposes"), 0);
  EXPECT_EQ(g.num(ops::transpose), 1) << g.graph.to_string();
}

TEST(PropagateTransposes, TakesTheOrderOfAFlattenedImageIntoTheWeightBehindIt) {
  for (const bool trans_b : {false, true}) {
    Dense g;
    const ValueId x = g.reshape(g.image_conv(g.input({2, 3, 4, 5}), 6), {2, 120});
    g.output(g.gemm(x, g.noise(trans_b ? Dims{7, 120} : Dims{120, 7}), trans_b));
    EXPECT_GT(g.run("propagate_transposes"), 0);
    EXPECT_EQ(g.num(ops::transpose), 1);
  }
}

TEST(PropagateTransposes, ReadsATransposedFactorWhereItStands) {
  Dense g;
  g.output(g.gemm(g.input({2, 3, 4}), g.transpose(g.input({2, 5, 4}), {0, 2, 1})));
  EXPECT_EQ(g.run("propagate_transposes"), 1);
  EXPECT_EQ(g.graph.nodes.size(), 1u);
  EXPECT_TRUE(g.graph.nodes[0].attrs.as<ops::GemmAttrs>().trans_b);
}

TEST(PropagateTransposes, LeavesAGraphAloneThatWouldMoveMore) {
  Dense g;
  const ValueId moved = g.transpose(g.input({4, 5, 6}), {2, 0, 1});
  g.output(g.softmax(moved));                       // over another axis
  g.output(g.plus(moved, g.input({6, 4, 5})));      // the other operand stands in this order
  g.output(g.unary(UnaryKind::relu, moved));
  g.output(g.unary(UnaryKind::tanh, moved));
  EXPECT_EQ(g.run("propagate_transposes"), 0);
  EXPECT_EQ(g.num(ops::transpose), 1);
}

TEST(PropagateTransposes, TakesTimeLinearInTheGraph) {
  Dense g;
  ValueId x = g.transpose(g.input({2, 3}), {1, 0});
  for (int i = 0; i < 20000; ++i) x = g.unary(UnaryKind::neg, x);
  g.graph.set_output("y", g.transpose(x, {1, 0}));
  EXPECT_GT(run_alone(g.graph, "propagate_transposes"), 20000);
  EXPECT_EQ(g.num(ops::transpose), 0);
}

}  // namespace
}  // namespace headrace
