#include <gmock/gmock.h>

#include "graph/pass_testing.h"
#include "ops/elementwise.h"

namespace headrace {
namespace {

using namespace pass_testing;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MergeLinears, MakesOneMatrixOfQueryKeyAndValue) {
  WithInput p(64);
  const ValueId q = linear(p.graph, p.x, "layers.0.attn.q_proj", Format::q8_0, 37, 64, true);
  const ValueId k = linear(p.graph, p.x, "layers.0.attn.k_proj", Format::q8_0, 5, 64, true);
  const ValueId v = linear(p.graph, p.x, "layers.0.attn.v_proj", Format::q8_0, 6, 64, true);
  p.graph.set_output("q", q);
  p.graph.set_output("k", k);
  p.graph.set_output("v", v);

  EXPECT_EQ(run_alone(p.graph, "merge_linears"), 1);
  EXPECT_EQ(p.graph.to_string(),
            "%12 f32 [T, 48] = matmul(@x, @layers.0.attn.q_proj+k_proj+v_proj.weight, "
            "@layers.0.attn.q_proj+k_proj+v_proj.bias)  # layers.0.attn.q_proj+k_proj+v_proj\n"
            "%13 f32 [T, 37] = slice_columns(%12) {0..37}  # layers.0.attn.q_proj\n"
            "%14 f32 [T, 5] = slice_columns(%12) {37..42}  # layers.0.attn.k_proj\n"
            "%15 f32 [T, 6] = slice_columns(%12) {42..48}  # layers.0.attn.v_proj\n"
            "output q = %13\noutput k = %14\noutput v = %15\n");
  const Value& merged = p.graph.values[p.graph.nodes[0].inputs[1]];
  EXPECT_EQ(merged.type, ValueType::weight(Format::q8_0, {48, 64}));
  EXPECT_EQ(merged.recipe, (WeightRecipe{{{"layers.0.attn.q_proj.weight", 0, 37},
                                          {"layers.0.attn.k_proj.weight", 0, 5},
                                          {"layers.0.attn.v_proj.weight", 0, 6}}}));
  const Value& bias = p.graph.values[p.graph.nodes[0].inputs[2]];
  EXPECT_EQ(bias.type, ValueType::weight(Format::f32, {48}));
  EXPECT_EQ(bias.recipe.parts.size(), 3u);
}

TEST(MergeLinears, LeavesAPartOfAnotherFormatAlone) {
  WithInput p(64);
  p.graph.set_output("q", linear(p.graph, p.x, "a.q_proj", Format::q4_0, 32, 64));
  p.graph.set_output("v", linear(p.graph, p.x, "a.v_proj", Format::q8_0, 32, 64));
  p.graph.set_output("k", linear(p.graph, p.x, "a.k_proj", Format::q4_0, 32, 64));
  EXPECT_EQ(run_alone(p.graph, "merge_linears"), 1);
  EXPECT_THAT(p.graph.to_string(), HasSubstr("matmul(@x, @a.q_proj+k_proj.weight)"));
  EXPECT_THAT(p.graph.to_string(), HasSubstr("matmul(@x, @a.v_proj.weight)"));
}

TEST(MergeLinears, DoesNotMixBiasesOrModulesOrInputs) {
  WithInput p(64);
  const ValueId y = node(p.graph, ops::add, ops::ElementwiseAttrs{}, {p.x, p.x}, "y");
  p.graph.set_output("1", linear(p.graph, p.x, "a.q_proj", Format::f32, 8, 64));
  p.graph.set_output("2", linear(p.graph, p.x, "a.k_proj", Format::f32, 8, 64, true));
  p.graph.set_output("3", linear(p.graph, p.x, "b.q_proj", Format::f32, 8, 64));
  p.graph.set_output("4", linear(p.graph, y, "a.v_proj", Format::f32, 8, 64));
  p.graph.set_output("5", linear(p.graph, p.x, "plain", Format::f32, 8, 64));
  p.graph.set_output("6", linear(p.graph, p.x, "other", Format::f32, 8, 64));
  const std::string before = p.graph.to_string();
  EXPECT_EQ(run_alone(p.graph, "merge_linears"), 0);
  EXPECT_EQ(p.graph.to_string(), before);
}

TEST(MergeLinears, MergesEachPairOnlyOnceAndInEveryLayer) {
  WithInput p(64);
  ValueId h = p.x;
  for (int layer = 0; layer < 3; ++layer) {
    const std::string at = fmt::format("layers.{}.mlp", layer);
    const ValueId gate = linear(p.graph, h, at + ".gate_proj", Format::q8_0, 64, 64);
    const ValueId up = linear(p.graph, h, at + ".up_proj", Format::q8_0, 64, 64);
    h = node(p.graph, ops::mul, ops::ElementwiseAttrs{}, {gate, up}, at + ".product");
  }
  p.graph.set_output("h", h);
  EXPECT_EQ(run_alone(p.graph, "merge_linears"), 3);
  EXPECT_EQ(p.graph.nodes.size(), 3u * 4);
  EXPECT_EQ(run_alone(p.graph, "merge_linears"), 0);
  EXPECT_THAT(p.graph.to_string(), Not(HasSubstr("@layers.2.mlp.gate_proj.weight")));
}

}  // namespace
}  // namespace headrace
