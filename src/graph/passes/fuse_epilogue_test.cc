#include "graph/dense_testing.h"

namespace headrace {
namespace {

using namespace pass_testing;
using ops::Epilogue;
using ops::UnaryAttrs;

TEST(FuseEpilogue, TakesBiasResidualAndActivationInEitherOrderOfOperands) {
  for (const bool left : {true, false}) {
    Dense g;
    const auto sum = [&](ValueId a, ValueId b) { return left ? g.plus(a, b) : g.plus(b, a); };
    const ValueId residual = g.input({2, 3, 5});
    g.output(g.unary(UnaryKind::gelu_erf, sum(sum(g.gemm(g.input({2, 3, 4}), g.input({4, 5})), g.noise({5})), residual)));
    EXPECT_EQ(g.run("fuse_epilogue"), 3);
    ASSERT_EQ(g.graph.nodes.size(), 1u);
    EXPECT_EQ(g.graph.nodes[0].attrs.as<ops::GemmAttrs>().epilogue, (Epilogue{true, true, UnaryAttrs{UnaryKind::gelu_erf}}));
    EXPECT_EQ(g.graph.nodes[0].inputs[3], residual);
  }
}

TEST(FuseEpilogue, TakesAnActivationBehindAReshape) {
  Dense g;
  const auto conv = [&](ValueId x) { return g.add(ops::conv, ops::ConvAttrs{}, {x, g.noise({4, 4, 1, 1})}); };
  const ValueId image = g.unary(UnaryKind::relu, g.reshape(conv(g.input({2, 1, 1, 4})), {2, 4, 1, 1}));
  g.output(conv(g.reshape(image, {2, 1, 1, 4})));
  EXPECT_EQ(g.run("fuse_epilogue"), 1);
  EXPECT_EQ(g.graph.nodes.size(), 2u) << g.graph.to_string();
}

TEST(FuseEpilogue, AddsAShortcutToTheLaterOfTwoConvolutions) {
  Dense g;
  const auto conv = [&](ValueId x) { return g.add(ops::conv, ops::ConvAttrs{}, {x, g.noise({4, 4, 1, 1})}); };
  const ValueId x = g.input({1, 5, 5, 4});
  const ValueId shortcut = conv(x);
  g.output(g.unary(UnaryKind::relu, g.plus(conv(conv(x)), shortcut)));
  EXPECT_EQ(g.run("fuse_epilogue"), 2);
  ASSERT_EQ(g.graph.nodes.size(), 3u);
  EXPECT_EQ(g.graph.nodes[2].attrs.as<ops::ConvAttrs>().epilogue, (Epilogue{false, true, UnaryAttrs{UnaryKind::relu}}));
}

TEST(FuseEpilogue, LeavesWhatFollowsAnActivationOrWhatSomethingElseReads) {
  Dense g;
  const ValueId x = g.input({3, 4});
  const ValueId shared = g.gemm(x, g.noise({4, 5}));
  g.output(shared);
  g.output(g.unary(UnaryKind::relu, shared));
  g.output(g.plus(g.gemm(x, g.noise({4, 5})), g.noise({3, 1})));  // neither a bias nor of the output's shape
  g.output(g.plus(g.gemm(x, g.noise({4, 1})), g.input({3, 5})));  // broadcasts the product
  const ValueId twice = g.gemm(x, g.noise({4, 5}));
  g.output(g.plus(twice, twice));
  EXPECT_EQ(g.run("fuse_epilogue"), 0);

  Dense h;
  const ValueId active = h.unary(UnaryKind::relu, h.gemm(h.input({3, 4}), h.noise({4, 5})));
  h.output(h.unary(UnaryKind::tanh, h.plus(active, h.input({3, 5}))));
  EXPECT_EQ(h.run("fuse_epilogue"), 1);
}

}  // namespace
}  // namespace headrace
