#include "graph/pass_testing.h"
#include "ops/elementwise.h"

namespace headrace {
namespace {

using namespace pass_testing;

TEST(QuantizeActivations, QuantizesAValueOnceForAllItsReaders) {
  WithInput p(64);
  p.graph.set_output("a", linear(p.graph, p.x, "a", Format::q4_1, 40, 64, true));
  p.graph.set_output("b", linear(p.graph, p.x, "b", Format::q8_0, 40, 64));
  EXPECT_EQ(run_alone(p.graph, "quantize_activations"), 2);
  ASSERT_EQ(p.graph.nodes.size(), 3u);
  const Node& quantize = p.graph.nodes[0];
  EXPECT_EQ(quantize.op, &ops::quantize_rows);
  EXPECT_EQ(quantize.inputs, (std::vector<ValueId>{p.x}));
  std::vector<ValueId> inputs = quantize.outputs;
  inputs.push_back(p.graph.find("a.weight"));
  inputs.push_back(p.graph.find("a.bias"));
  EXPECT_EQ(p.graph.nodes[1].op, &ops::matmul_q8);
  EXPECT_EQ(p.graph.nodes[1].inputs, inputs);
  EXPECT_EQ(p.graph.nodes[2].op, &ops::matmul_q8);
  EXPECT_EQ(p.graph.outputs[0].value, p.graph.nodes[1].outputs[0]);
}

TEST(QuantizeActivations, LeavesFloatWeightsAlone) {
  WithInput p(64);
  p.graph.set_output("a", linear(p.graph, p.x, "a", Format::f16, 40, 64));
  p.graph.set_output("b", linear(p.graph, p.x, "b", Format::fp8_e4m3, 40, 64));
  EXPECT_EQ(run_alone(p.graph, "quantize_activations"), 0);
}

TEST(QuantizeActivations, DoesNothingWhenThePolicyKeepsFloats) {
  WithInput p(64);
  p.graph.set_output("a", linear(p.graph, p.x, "a", Format::q8_0, 40, 64));
  EXPECT_EQ(run_alone(p.graph, "quantize_activations", DtypePolicy::exact()), 0);
  EXPECT_EQ(p.graph.nodes[0].op, &ops::matmul);
}

}  // namespace
}  // namespace headrace
