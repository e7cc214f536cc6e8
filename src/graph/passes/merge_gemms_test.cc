#include "graph/dense_testing.h"
#include "ops/rows.h"
#include "ops/sdpa.h"

namespace headrace {
namespace {

using namespace pass_testing;

ops::SdpaAttrs heads(int32_t num_heads) {
  ops::SdpaAttrs attrs;
  attrs.heads = attrs.kv_heads = num_heads;
  return attrs;
}

TEST(MergeGemms, MakesOneProjectionOfQueriesKeysAndValues) {
  for (const bool trans_b : {false, true}) {
    for (const bool bias : {false, true}) {
      Dense g;
      const ValueId x = g.input({2, 5, 6});
      const auto project = [&](int64_t columns) {
        const ops::GemmAttrs attrs{.trans_b = trans_b, .epilogue = {.bias = bias}};
        std::vector<ValueId> inputs = {x, g.noise(trans_b ? Dims{columns, 6} : Dims{6, columns})};
        if (bias) inputs.push_back(g.noise({columns}));
        return g.add(ops::gemm, attrs, inputs);
      };
      const ValueId q = project(8), k = project(8), v = project(4);
      g.output(g.add(ops::sdpa, heads(2), {q, k, v}));
      EXPECT_EQ(g.run("merge_gemms"), 1);
      EXPECT_EQ(g.dims(g.only(ops::gemm).outputs[0]), (Dims{2, 5, 20}));
      EXPECT_EQ(g.num(ops::slice_columns), 3);
    }
  }
}

TEST(MergeGemms, ReadsTheColumnsOfAFusedProjectionAsViews) {
  Dense g;
  const ValueId x = g.input({2, 5, 24});
  g.output(g.add(ops::sdpa, heads(2), {g.slice(x, 2, 0, 8), g.slice(x, 2, 8, 16), g.slice(x, 2, 16, 24)}));
  EXPECT_EQ(g.run("merge_gemms"), 3);
  EXPECT_EQ(g.num(ops::slice), 0);
  EXPECT_EQ(g.num(ops::slice_columns), 3);
}

TEST(MergeGemms, LeavesProjectionsOfOtherValuesAndThoseThatOthersRead) {
  Dense g;
  const ValueId x = g.input({2, 5, 6});
  const ValueId q = g.gemm(x, g.noise({6, 8})), k = g.gemm(g.input({2, 5, 6}), g.noise({6, 8})), v = g.gemm(x, g.noise({6, 8}));
  g.output(g.add(ops::sdpa, heads(2), {q, k, v}));
  g.output(v);
  EXPECT_EQ(g.run("merge_gemms"), 0);
}

}  // namespace
}  // namespace headrace
