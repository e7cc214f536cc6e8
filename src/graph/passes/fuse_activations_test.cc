#include <functional>

#include "graph/dense_testing.h"

namespace headrace {
namespace {

using namespace pass_testing;
using ops::UnaryAttrs;

using Spelling = std::function<ValueId(Dense&, ValueId)>;

// What one activation became; relu of nothing where the graph has more than one node.
UnaryAttrs fused(const Spelling& spelling) {
  Dense g;
  const ValueId x = g.input({3, 7});
  g.output(spelling(g, x));
  EXPECT_GE(g.run("fuse_activations", 1e-3), 1);
  EXPECT_EQ(g.graph.nodes.size(), 1u) << g.graph.to_string();
  EXPECT_EQ(g.graph.nodes[0].inputs, std::vector{x});
  return g.graph.nodes[0].op == &ops::unary ? g.graph.nodes[0].attrs.as<UnaryAttrs>() : UnaryAttrs{};
}

ValueId bell(Dense& g, ValueId x) { return g.plus(g.unary(UnaryKind::erf, g.over(x, g.number(1.41421356))), g.number(1)); }

TEST(FuseActivations, KnowsGeluWithTheErrorFunctionInEveryOrder) {
  const Spelling spellings[] = {
      [](Dense& g, ValueId x) { return g.times(g.times(x, bell(g, x)), g.number(0.5)); },
      [](Dense& g, ValueId x) { return g.times(g.times(x, g.number(0.5)), bell(g, x)); },
      [](Dense& g, ValueId x) { return g.times(x, g.times(g.number(0.5), bell(g, x))); },
      [](Dense& g, ValueId x) { return g.times(g.over(bell(g, x), g.number(2)), x); },
      [](Dense& g, ValueId x) {
        const ValueId erf = g.unary(UnaryKind::erf, g.times(x, g.number(0.70710678)));
        return g.times(x, g.plus(g.times(erf, g.number(0.5)), g.number(0.5)));
      },
  };
  for (const Spelling& spelling : spellings) EXPECT_EQ(fused(spelling), UnaryAttrs{UnaryKind::gelu_erf});
}

TEST(FuseActivations, KnowsGeluWithTanhInEveryOrder) {
  const auto gelu = [](Dense& g, ValueId x, ValueId argument) {
    return g.times(g.times(g.number(0.5), x), g.plus(g.number(1), g.unary(UnaryKind::tanh, argument)));
  };
  const Spelling spellings[] = {
      [&](Dense& g, ValueId x) {
        const ValueId cube = g.times(g.number(0.044715), g.power(x, 3));
        return gelu(g, x, g.times(g.number(0.7978846), g.plus(x, cube)));
      },
      [&](Dense& g, ValueId x) {
        const ValueId cube = g.times(g.times(g.times(x, g.number(0.044715)), x), x);
        return gelu(g, x, g.times(g.plus(cube, x), g.number(0.7978846)));
      },
      [&](Dense& g, ValueId x) {
        const ValueId square = g.times(g.times(x, x), g.number(0.044715));
        return gelu(g, x, g.times(g.times(x, g.number(0.7978846)), g.plus(square, g.number(1))));
      },
  };
  for (const Spelling& spelling : spellings) EXPECT_EQ(fused(spelling), UnaryAttrs{UnaryKind::gelu_tanh});
}

TEST(FuseActivations, KnowsGatesOfTheirInput) {
  EXPECT_EQ(fused([](Dense& g, ValueId x) { return g.times(g.unary(UnaryKind::sigmoid, x), x); }), UnaryAttrs{UnaryKind::silu});
  EXPECT_EQ(fused([](Dense& g, ValueId x) {
              return g.times(x, g.over(g.number(1), g.plus(g.unary(UnaryKind::exp, g.unary(UnaryKind::neg, x)), g.number(1))));
            }),
            UnaryAttrs{UnaryKind::silu});
  EXPECT_EQ(fused([](Dense& g, ValueId x) { return g.times(x, g.unary(UnaryKind::hard_sigmoid, x, 1.0f / 6, 0.5f)); }),
            UnaryAttrs{UnaryKind::hard_swish});
  EXPECT_EQ(fused([](Dense& g, ValueId x) {
              return g.over(g.times(x, g.unary(UnaryKind::clip, g.plus(x, g.number(3)), 0, 6)), g.number(6));
            }),
            UnaryAttrs{UnaryKind::hard_swish});
  EXPECT_EQ(fused([](Dense& g, ValueId x) {
              const ValueId clip = g.binary(BinaryKind::min, g.binary(BinaryKind::max, g.plus(x, g.number(3)), g.number(0)), g.number(6));
              return g.times(x, g.times(clip, g.number(1.0 / 6)));
            }),
            UnaryAttrs{UnaryKind::hard_swish});
  EXPECT_EQ(fused([](Dense& g, ValueId x) { return g.times(x, g.unary(UnaryKind::tanh, g.unary(UnaryKind::softplus, x))); }),
            UnaryAttrs{UnaryKind::mish});
  EXPECT_EQ(fused([](Dense& g, ValueId x) {
              const ValueId softplus = g.unary(UnaryKind::log, g.plus(g.number(1), g.unary(UnaryKind::exp, x)));
              return g.times(x, g.unary(UnaryKind::tanh, softplus));
            }),
            UnaryAttrs{UnaryKind::mish});
}

TEST(FuseActivations, KnowsBounds) {
  const auto max = [](Dense& g, ValueId a, ValueId b) { return g.binary(BinaryKind::max, a, b); };
  const auto min = [](Dense& g, ValueId a, ValueId b) { return g.binary(BinaryKind::min, a, b); };
  EXPECT_EQ(fused([&](Dense& g, ValueId x) { return max(g, x, g.number(0)); }), UnaryAttrs{UnaryKind::relu});
  EXPECT_EQ(fused([&](Dense& g, ValueId x) { return min(g, g.unary(UnaryKind::relu, x), g.number(6)); }),
            (UnaryAttrs{UnaryKind::clip, 0, 6}));
  EXPECT_EQ(fused([&](Dense& g, ValueId x) { return max(g, min(g, x, g.number(1)), g.number(-1)); }),
            (UnaryAttrs{UnaryKind::clip, -1, 1}));
  EXPECT_EQ(fused([&](Dense& g, ValueId x) { return max(g, x, g.times(x, g.number(0.125))); }),
            (UnaryAttrs{UnaryKind::leaky_relu, 0.125f}));
  EXPECT_EQ(fused([&](Dense& g, ValueId x) { return g.over(g.unary(UnaryKind::clip, g.plus(x, g.number(3)), 0, 6), g.number(6)); }).kind,
            UnaryKind::hard_sigmoid);
}

TEST(FuseActivations, LeavesPartsThatSomethingElseReadsAndOtherFunctions) {
  Dense g;
  const ValueId x = g.input({3, 7}), gate = g.unary(UnaryKind::sigmoid, x);
  g.output(g.times(x, gate));
  g.output(gate);
  g.output(g.times(g.input({3, 7}), g.unary(UnaryKind::sigmoid, x)));                                  // another input
  g.output(g.times(g.times(x, g.number(0.4)), bell(g, x)));                                            // not half
  g.output(g.binary(BinaryKind::max, x, g.times(x, g.number(2))));                                     // x below 0, not 2 x
  g.output(g.binary(BinaryKind::max, g.binary(BinaryKind::min, x, g.number(-1)), g.number(1)));        // bounds crossed
  EXPECT_EQ(g.run("fuse_activations"), 0);
}

}  // namespace
}  // namespace headrace
