#include "graph/pass_testing.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/rope.h"
#include "ops/rows.h"
#include "ops/sample.h"

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

TEST(QuantizeActivations, RoundsActivationsOfBf16WeightsOnceWherePolicySaysSo) {
  for (const bool pays : {false, true}) {
    WithInput p(64);
    p.graph.set_output("a", linear(p.graph, p.x, "a", Format::bf16, 40, 64, true));
    p.graph.set_output("b", linear(p.graph, p.x, "b", Format::bf16, 40, 64));
    p.graph.set_output("c", linear(p.graph, p.x, "c", Format::f16, 40, 64));
    DtypePolicy policy;
    policy.bf16_products = pays;
    EXPECT_EQ(run_alone(p.graph, "quantize_activations", policy), pays ? 2 : 0);
    if (!pays) continue;
    ASSERT_EQ(p.graph.nodes.size(), 4u);
    EXPECT_EQ(p.graph.nodes[0].op, &ops::round_bf16);
    EXPECT_EQ(p.graph.nodes[0].inputs, (std::vector<ValueId>{p.x}));
    EXPECT_EQ(p.graph.nodes[1].op, &ops::matmul_bf16);
    EXPECT_EQ(p.graph.nodes[1].inputs,
              (std::vector<ValueId>{p.graph.nodes[0].outputs[0], p.graph.find("a.weight"), p.graph.find("a.bias")}));
    EXPECT_EQ(p.graph.nodes[2].op, &ops::matmul_bf16);
    EXPECT_EQ(p.graph.nodes[3].op, &ops::matmul);
  }
}

// x -> matmul "qkv" -> slice -> rope; x -> matmul "mlp" -> (an output).
void add_query_and_mlp(WithInput& p) {
  const ValueId qkv = linear(p.graph, p.x, "qkv", Format::q4_1, 96, 64);
  const ValueId q = node(p.graph, ops::slice_columns, ops::SliceColumnsAttrs{0, 32}, {qkv}, "q");
  const ValueId positions = p.graph.add_input("positions", DType::i32, {p.graph.values[p.x].type.shape[0]});
  const ValueId table = p.graph.add_constant("inv_freq", DType::f32, {16}, std::vector<double>(16, 1.0));
  ops::RopeAttrs attrs;
  attrs.heads = 1;
  attrs.head_dim = attrs.rotary_dim = 32;
  p.graph.set_output("q", node(p.graph, ops::rope, attrs, {q, positions, table}, "rope"));
  p.graph.set_output("mlp", linear(p.graph, p.x, "mlp", Format::q4_1, 40, 64));
}

int32_t terms_of(const Graph& graph, std::string_view name) {
  for (const Node& node : graph.nodes) {
    if (node.name == name && node.op == &ops::matmul_q8) return node.attrs.as<ops::Q8Attrs>().terms;
  }
  return 0;
}

TEST(QuantizeActivations, GivesTwoTermsToWhatRopeReadsThroughAWindowAndOneToTheRest) {
  WithInput p(64);
  add_query_and_mlp(p);
  EXPECT_EQ(run_alone(p.graph, "quantize_activations"), 2);
  EXPECT_EQ(terms_of(p.graph, "qkv"), 2);
  EXPECT_EQ(terms_of(p.graph, "mlp"), 1);
  // One value in two precisions is quantized once for each.
  EXPECT_EQ(p.graph.nodes[0].op, &ops::quantize_rows);
  EXPECT_EQ(p.graph.nodes[0].attrs.as<ops::Q8Attrs>().terms, 2);
  EXPECT_EQ(p.graph.values[p.graph.nodes[0].outputs[0]].type.shape[1].constant(), 128);
  EXPECT_EQ(std::count_if(p.graph.nodes.begin(), p.graph.nodes.end(),
                          [](const Node& node) { return node.op == &ops::quantize_rows; }),
            2);
}

TEST(QuantizeActivations, GivesOneTermToAllWhenThePolicySaysSo) {
  WithInput p(64);
  add_query_and_mlp(p);
  DtypePolicy policy;
  policy.two_terms_where_sensitive = false;
  EXPECT_EQ(run_alone(p.graph, "quantize_activations", policy), 2);
  EXPECT_EQ(terms_of(p.graph, "qkv"), 1);
  EXPECT_EQ(terms_of(p.graph, "mlp"), 1);
}

TEST(QuantizeActivations, GivesTwoTermsToKeysAndValuesThatAreWritten) {
  WithInput p(64);
  const ValueId k = linear(p.graph, p.x, "k", Format::q8_0, 32, 64), v = linear(p.graph, p.x, "v", Format::q8_0, 32, 64);
  const ValueId slots = p.graph.add_input("kv_slot", DType::i32, {p.graph.values[p.x].type.shape[0]});
  const ValueId kv = p.graph.add_state("kv.0", ValueType::kv_layer({KvKind::self, 1, 32, 0, DType::f32}), 0);
  ASSERT_TRUE(p.graph.add_node(ops::kv_write, ops::KvWriteAttrs{1, 32}, {k, v, slots, kv}, "kv_write"));
  EXPECT_EQ(run_alone(p.graph, "quantize_activations"), 2);
  EXPECT_EQ(terms_of(p.graph, "k"), 2);
  EXPECT_EQ(terms_of(p.graph, "v"), 2);
}

TEST(QuantizeActivations, LeavesFloatWeightsAlone) {
  WithInput p(64);
  p.graph.set_output("a", linear(p.graph, p.x, "a", Format::f16, 40, 64));
  p.graph.set_output("b", linear(p.graph, p.x, "b", Format::fp8_e4m3, 40, 64));
  EXPECT_EQ(run_alone(p.graph, "quantize_activations"), 0);
}

TEST(QuantizeActivations, LeavesBlockFormatsWithoutAnIntegerKernelToMatmul) {
  WithInput p(256);
  p.graph.set_output("a", linear(p.graph, p.x, "a", Format::iq4_xs, 40, 256));
  p.graph.set_output("b", linear(p.graph, p.x, "b", Format::mxfp4, 40, 256));
  EXPECT_EQ(run_alone(p.graph, "quantize_activations"), 0);
  EXPECT_EQ(p.graph.nodes[0].op, &ops::matmul);
  EXPECT_EQ(p.graph.nodes[1].op, &ops::matmul);
}

TEST(QuantizeActivations, DoesNothingWhenThePolicyKeepsFloats) {
  WithInput p(64);
  p.graph.set_output("a", linear(p.graph, p.x, "a", Format::q8_0, 40, 64));
  EXPECT_EQ(run_alone(p.graph, "quantize_activations", DtypePolicy::exact()), 0);
  EXPECT_EQ(p.graph.nodes[0].op, &ops::matmul);
}

}  // namespace
}  // namespace headrace
