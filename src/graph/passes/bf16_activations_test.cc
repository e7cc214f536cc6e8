#include "graph/pass_testing.h"
#include "ops/elementwise.h"
#include "ops/rms_norm.h"
#include "ops/rows.h"

namespace headrace {
namespace {

using namespace pass_testing;

DType dtype_of(const Graph& graph, ValueId value) { return graph.values[value].type.dtype; }

// A gated MLP on a residual stream: norm, up and gate in one matrix, product, down, the next norm with its addition.
struct Mlp : WithInput {
  ValueId normed, merged, product, down, next;
  explicit Mlp(Format down_format = Format::bf16) : WithInput(64) {
    const auto norm = [&](const char* name) { return weight(graph, name, Format::f32, {64}); };
    normed = node(graph, ops::rms_norm, ops::RmsNormAttrs{}, {x, norm("norm")}, "norm");
    merged = linear(graph, normed, "gate_up", Format::bf16, 96, 64);
    const ValueId gate = node(graph, ops::slice_columns, ops::SliceColumnsAttrs{0, 48}, {merged}, "gate");
    const ValueId up = node(graph, ops::slice_columns, ops::SliceColumnsAttrs{48, 96}, {merged}, "up");
    product = node(graph, ops::gated_activation, ops::UnaryAttrs{ops::UnaryKind::silu}, {gate, up}, "product");
    down = linear(graph, product, "down", down_format, 64, 48);
    const auto both = graph.add_node(ops::add_rms_norm, ops::RmsNormAttrs{}, {down, x, norm("next_norm")}, "next");
    graph.set_output("sum", both->at(0));
    next = both->at(1);
    graph.set_output("logits", linear(graph, next, "head", Format::bf16, 32, 64));
  }
};

TEST(Bf16Activations, NarrowsWhatFlowsBetweenLinearsAndNotTheResidualNorTheLogits) {
  Mlp mlp;
  EXPECT_EQ(run_alone(mlp.graph, "bf16_activations", DtypePolicy::bf16()), 3);
  for (const ValueId value : {mlp.normed, mlp.merged, mlp.product, mlp.down, mlp.next}) EXPECT_EQ(dtype_of(mlp.graph, value), DType::bf16);
  for (const GraphOutput& output : mlp.graph.outputs) EXPECT_EQ(dtype_of(mlp.graph, output.value), DType::f32);
  for (const Node& node : mlp.graph.nodes) EXPECT_NE(node.op, &ops::matmul);
}

TEST(Bf16Activations, KeepsWhatAFloat32MatrixReadsAndAllThatMustBeAlike) {
  Mlp mlp(Format::f32);
  EXPECT_EQ(run_alone(mlp.graph, "bf16_activations", DtypePolicy::bf16()), 2);
  // down reads float32: so do the product, and the windows of the merged matrix.
  for (const ValueId value : {mlp.merged, mlp.product, mlp.down}) EXPECT_EQ(dtype_of(mlp.graph, value), DType::f32);
  for (const ValueId value : {mlp.normed, mlp.next}) EXPECT_EQ(dtype_of(mlp.graph, value), DType::bf16);
}

TEST(Bf16Activations, RoundsAnInputOnceForAllItsReaders) {
  WithInput p(64);
  p.graph.set_output("a", linear(p.graph, p.x, "a", Format::bf16, 40, 64, true));
  p.graph.set_output("b", linear(p.graph, p.x, "b", Format::bf16, 40, 64));
  EXPECT_EQ(run_alone(p.graph, "bf16_activations", DtypePolicy::bf16()), 2);
  ASSERT_EQ(p.graph.nodes.size(), 3u);
  EXPECT_EQ(p.graph.nodes[0].op, &ops::round_bf16);
  for (const int i : {1, 2}) EXPECT_EQ(p.graph.nodes[i].inputs[0], p.graph.nodes[0].outputs[0]);
}

TEST(Bf16Activations, DoesNothingUnderAnotherPolicy) {
  for (const DtypePolicy& policy : {DtypePolicy(), DtypePolicy::exact()}) {
    Mlp mlp;
    EXPECT_EQ(run_alone(mlp.graph, "bf16_activations", policy), 0);
    EXPECT_EQ(dtype_of(mlp.graph, mlp.normed), DType::f32);
  }
}

}  // namespace
}  // namespace headrace
