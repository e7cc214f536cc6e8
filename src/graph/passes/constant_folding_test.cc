#include <gmock/gmock.h>

#include "graph/pass_testing.h"
#include "graph/test_ops.h"
#include "ops/elementwise.h"

namespace headrace {
namespace {

using namespace pass_testing;
using ::testing::ElementsAre;

TEST(ConstantFolding, ComputesAChainOfConstants) {
  WithInput p(2);
  const ValueId a = p.graph.add_constant("a", DType::f32, {1, 2}, {1, 2});
  const ValueId b = p.graph.add_constant("b", DType::f32, {1, 2}, {0.5, 0.1});
  const ValueId sum = node(p.graph, ops::add, ops::ElementwiseAttrs{}, {a, b}, "sum");
  p.graph.set_output("product", node(p.graph, ops::mul, ops::ElementwiseAttrs{}, {sum, sum}, "product"));
  EXPECT_EQ(run_alone(p.graph, "constant_folding"), 2);
  EXPECT_TRUE(p.graph.nodes.empty());
  const Value& folded = p.graph.values[p.graph.outputs[0].value];
  EXPECT_EQ(folded.role, ValueRole::constant);
  // Rounded to float32 after each node, as the node would.
  const double second = static_cast<float>(2 + static_cast<double>(0.1f));
  EXPECT_THAT(constant_values(folded), ElementsAre(2.25, static_cast<float>(second * second)));
}

TEST(ConstantFolding, LeavesWhatDependsOnInputsStateOrChance) {
  WithInput p(2);
  const ValueId a = p.graph.add_constant("a", DType::f32, {2}, {1, 2});
  const ValueId state = p.graph.add_state("state", ValueType::tensor(DType::f32, {2}));
  p.graph.set_output("x", node(p.graph, test_ops::sum, test_ops::NoAttrs{}, {p.x}, "x"));
  p.graph.set_output("load", node(p.graph, test_ops::load, test_ops::NoAttrs{}, {a, state}, "load"));
  p.graph.set_output("draw", node(p.graph, test_ops::draw, test_ops::NoAttrs{}, {a}, "draw"));
  const std::string before = p.graph.to_string();
  EXPECT_EQ(run_alone(p.graph, "constant_folding"), 0);
  EXPECT_EQ(p.graph.to_string(), before);
}

TEST(ConstantFolding, LeavesResultsThatAreTooLargeToKeep) {
  for (const int64_t elements : {65536, 65537}) {
    WithInput p(2);
    const ValueId a = p.graph.add_constant("a", DType::f32, {elements}, std::vector<double>(elements, 1.0));
    p.graph.set_output("y", node(p.graph, test_ops::sum, test_ops::NoAttrs{}, {a}, "y"));
    EXPECT_EQ(run_alone(p.graph, "constant_folding"), elements == 65536 ? 1 : 0);
  }
}

}  // namespace
}  // namespace headrace
