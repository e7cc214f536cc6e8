#include "graph/pass_testing.h"
#include "ops/elementwise.h"

namespace headrace {
namespace {

using namespace pass_testing;

struct Gated : WithInput {
  ValueId up, active;
  Gated() : WithInput(64) {
    up = graph.add_input("up", DType::f32, graph.values[x].type.shape);
    active = node(graph, ops::unary, ops::UnaryAttrs{ops::UnaryKind::gelu_tanh}, {x}, "act");
  }
};

TEST(GatedActivation, FusesTheActivationWithTheProductOnEitherSide) {
  for (const bool left : {true, false}) {
    Gated p;
    const std::vector<ValueId> factors = left ? std::vector{p.active, p.up} : std::vector{p.up, p.active};
    p.graph.set_output("y", node(p.graph, ops::mul, ops::ElementwiseAttrs{}, factors, "product"));
    EXPECT_EQ(run_alone(p.graph, "gated_activation"), 1);
    ASSERT_EQ(p.graph.nodes.size(), 1u);
    EXPECT_EQ(p.graph.nodes[0].op, &ops::gated_activation);
    EXPECT_EQ(p.graph.nodes[0].attrs, Attrs(ops::UnaryAttrs{ops::UnaryKind::gelu_tanh}));
    EXPECT_EQ(p.graph.nodes[0].inputs, (std::vector<ValueId>{p.x, p.up}));
    EXPECT_EQ(p.graph.outputs[0].value, p.graph.nodes[0].outputs[0]);
  }
}

TEST(GatedActivation, LeavesAnActivationThatSomethingElseReads) {
  Gated p;
  p.graph.set_output("y", node(p.graph, ops::mul, ops::ElementwiseAttrs{}, {p.active, p.up}, "product"));
  p.graph.set_output("act", p.active);
  EXPECT_EQ(run_alone(p.graph, "gated_activation"), 0);
  p.graph.outputs.pop_back();
  p.graph.set_output("z", node(p.graph, ops::add, ops::ElementwiseAttrs{}, {p.active, p.up}, "sum"));
  EXPECT_EQ(run_alone(p.graph, "gated_activation"), 0);
}

TEST(GatedActivation, LeavesTheSquareOfAnActivation) {
  Gated p;
  p.graph.set_output("y", node(p.graph, ops::mul, ops::ElementwiseAttrs{}, {p.active, p.active}, "square"));
  EXPECT_EQ(run_alone(p.graph, "gated_activation"), 0);
}

}  // namespace
}  // namespace headrace
