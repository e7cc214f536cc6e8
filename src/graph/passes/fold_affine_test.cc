#include "graph/dense_testing.h"

namespace headrace {
namespace {

using namespace pass_testing;

TEST(FoldAffine, TakesBatchNormsBehindConvolutionsIntoWeightAndBias) {
  for (const int64_t groups : {1, 2}) {
    for (const Op* op : {&ops::conv, &ops::conv_transpose}) {
      Dense g;
      ops::ConvAttrs attrs;
      attrs.groups = groups;
      attrs.pads = {1, 1, 1, 1};
      attrs.epilogue.bias = true;
      const ValueId weight = g.noise(op == &ops::conv ? Dims{6, 4 / groups, 3, 3} : Dims{4, 6 / groups, 3, 3});
      ValueId y = g.add(*op, attrs, {g.input({2, 5, 5, 4}), weight, g.noise({6})});
      y = g.minus(g.times(y, g.noise({6})), g.noise({1, 1, 1, 6}));
      g.output(g.over(g.plus(g.noise({6}), y), g.number(3)));
      EXPECT_EQ(g.run("fold_affine"), 4);
      EXPECT_EQ(g.graph.nodes.size(), 1u);
    }
  }
}

TEST(FoldAffine, TakesProductsAndSumsAroundAGemm) {
  for (const bool trans_b : {false, true}) {
    Dense g;
    const ValueId x = g.plus(g.times(g.input({2, 3, 4}), g.noise({4})), g.noise({4}));
    const ValueId y = g.add(ops::gemm, ops::GemmAttrs{.trans_b = trans_b, .scale = 0.5f}, {x, g.noise(trans_b ? Dims{5, 4} : Dims{4, 5})});
    g.output(g.plus(g.times(y, g.noise({5})), g.noise({1, 1, 5})));
    EXPECT_EQ(g.run("fold_affine"), 4);
    EXPECT_EQ(g.graph.nodes.size(), 1u);
  }
}

TEST(FoldAffine, TakesAScaleBeforeAConvolutionAndASumWhereNoPadIsBetween) {
  for (const int64_t pad : {0, 1}) {
    for (const int64_t groups : {1, 2}) {
      Dense g;
      ops::ConvAttrs attrs;
      attrs.groups = groups;
      attrs.pads = {pad, 0, 0, 0};
      const ValueId x = g.plus(g.times(g.input({1, 5, 5, 4}), g.noise({4})), g.noise({4}));
      g.output(g.add(ops::conv, attrs, {x, g.noise({6, 4 / groups, 3, 3})}));
      EXPECT_EQ(g.run("fold_affine"), pad == 0 ? 2 : 0);
    }
  }
  Dense g;
  ops::ConvAttrs attrs;
  attrs.groups = 2;
  g.output(g.add(ops::conv_transpose, attrs, {g.times(g.input({1, 5, 5, 4}), g.noise({4})), g.noise({4, 3, 3, 3})}));
  EXPECT_EQ(g.run("fold_affine"), 1);
}

TEST(FoldAffine, ScalesAProductOfComputedFactorsByANumber) {
  Dense g;
  g.output(g.over(g.gemm(g.input({3, 4}), g.input({4, 5})), g.number(8)));
  EXPECT_EQ(g.run("fold_affine"), 1);
  EXPECT_EQ(g.only(ops::gemm).attrs.as<ops::GemmAttrs>().scale, 0.125f);
}

TEST(FoldAffine, LeavesWhatSomethingElseReadsAndWhatIsNotByColumn) {
  Dense g;
  const ValueId weight = g.noise({4, 5}), x = g.input({3, 4});
  const ValueId y = g.gemm(x, weight);
  g.output(y);
  g.output(g.times(y, g.noise({5})));
  g.output(g.times(g.gemm(x, g.noise({4, 5})), g.noise({3, 1})));
  g.output(g.times(g.gemm(g.input({3, 4}), weight), g.noise({5})));  // a weight of two products
  g.output(g.times(g.gemm(x, g.noise({4, 1})), g.noise({5})));       // the product grows
  EXPECT_EQ(g.run("fold_affine"), 0);
}

}  // namespace
}  // namespace headrace
