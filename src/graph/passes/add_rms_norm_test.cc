#include "graph/pass_testing.h"
#include "ops/elementwise.h"
#include "ops/rms_norm.h"

namespace headrace {
namespace {

using namespace pass_testing;

TEST(AddRmsNorm, FusesTheResidualAdditionWithItsNorm) {
  WithInput p(64);
  const ValueId branch = linear(p.graph, p.x, "o_proj", Format::f32, 64, 64);
  const ValueId sum = node(p.graph, ops::add, ops::ElementwiseAttrs{}, {p.x, branch}, "residual");
  const ValueId norm =
      node(p.graph, ops::rms_norm, ops::RmsNormAttrs{1e-6f, 1.0f}, {sum, weight(p.graph, "g", Format::f32, {64})}, "norm");
  const ValueId again = node(p.graph, ops::add, ops::ElementwiseAttrs{}, {sum, norm}, "again");
  p.graph.set_output("again", again);

  EXPECT_EQ(run_alone(p.graph, "add_rms_norm"), 1);
  ASSERT_EQ(p.graph.nodes.size(), 3u);
  const Node& fused = p.graph.nodes[1];
  EXPECT_EQ(fused.op, &ops::add_rms_norm);
  EXPECT_EQ(fused.attrs, Attrs(ops::RmsNormAttrs{1e-6f, 1.0f}));
  EXPECT_EQ(fused.inputs, (std::vector<ValueId>{branch, p.x, p.graph.find("g")}));
  EXPECT_EQ(p.graph.nodes[2].inputs, fused.outputs);  // again = sum + norm
}

TEST(AddRmsNorm, ReadersBetweenTheAdditionAndTheNormSeeTheFusedSum) {
  WithInput p(64);
  const ValueId sum = node(p.graph, ops::add, ops::ElementwiseAttrs{}, {p.x, p.x}, "sum");
  const ValueId between = node(p.graph, ops::mul, ops::ElementwiseAttrs{}, {sum, p.x}, "between");
  const ValueId norm =
      node(p.graph, ops::rms_norm, ops::RmsNormAttrs{}, {sum, weight(p.graph, "g", Format::f32, {64})}, "norm");
  p.graph.set_output("between", between);
  p.graph.set_output("norm", norm);
  EXPECT_EQ(run_alone(p.graph, "add_rms_norm"), 1);
  EXPECT_EQ(p.graph.nodes[0].op, &ops::add_rms_norm);
  EXPECT_EQ(p.graph.nodes[1].inputs[0], p.graph.nodes[0].outputs[0]);
  EXPECT_EQ(p.graph.outputs[1].value, p.graph.nodes[0].outputs[1]);
}

TEST(AddRmsNorm, TwoNormsOfOneSumAreFusedOnce) {
  WithInput p(64);
  const ValueId sum = node(p.graph, ops::add, ops::ElementwiseAttrs{}, {p.x, p.x}, "sum");
  for (const char* name : {"a", "b"}) {
    p.graph.set_output(name, node(p.graph, ops::rms_norm, ops::RmsNormAttrs{},
                                  {sum, weight(p.graph, fmt::format("{}.g", name), Format::f32, {64})}, name));
  }
  EXPECT_EQ(run_alone(p.graph, "add_rms_norm"), 1);
  ASSERT_EQ(p.graph.nodes.size(), 2u);
  EXPECT_EQ(p.graph.nodes[1].op, &ops::rms_norm);
  EXPECT_EQ(p.graph.nodes[1].inputs[0], p.graph.nodes[0].outputs[0]);
}

}  // namespace
}  // namespace headrace
