#include "graph/passes/dead_code.h"

#include "graph/pass_testing.h"
#include "graph/test_ops.h"

namespace headrace {
namespace {

using namespace pass_testing;
using test_ops::NoAttrs;

TEST(DeadCode, RemovesChainsThatNothingReads) {
  WithInput p(4);
  const ValueId a = node(p.graph, test_ops::sum, NoAttrs{}, {p.x}, "a");
  const ValueId b = node(p.graph, test_ops::sum, NoAttrs{}, {a}, "b");
  node(p.graph, test_ops::sum, NoAttrs{}, {b}, "c");
  p.graph.set_output("a", a);
  EXPECT_EQ(run_alone(p.graph, "dead_code"), 2);
  EXPECT_EQ(p.graph.to_string(), "%1 f32 [T, 4] = sum(@x)  # a\noutput a = %1\n");
}

TEST(DeadCode, KeepsWritersOfStateAndWhatTheyNeed) {
  WithInput p(4);
  const ValueId state = p.graph.add_state("state", ValueType::tensor(DType::f32, {4}));
  const ValueId a = node(p.graph, test_ops::sum, NoAttrs{}, {p.x}, "a");
  ASSERT_TRUE(p.graph.add_node(test_ops::store, NoAttrs{}, {a, state}, "store"));
  node(p.graph, test_ops::load, NoAttrs{}, {state}, "load");
  node(p.graph, test_ops::draw, NoAttrs{}, {p.x}, "draw");
  EXPECT_EQ(run_alone(p.graph, "dead_code"), 2);
  EXPECT_EQ(p.graph.to_string(), "%2 f32 [T, 4] = sum(@x)  # a\nstore(%2, @state)  # store\n");
}

TEST(DeadCode, KeepsANodeWhenOneOfItsOutputsIsRead) {
  WithInput p(4);
  const auto both = p.graph.add_node(test_ops::twice, NoAttrs{}, {p.x}, "twice");
  p.graph.set_output("second", both->at(1));
  EXPECT_EQ(passes::remove_dead_code(p.graph), 0);
  EXPECT_EQ(p.graph.nodes.size(), 1u);
}

}  // namespace
}  // namespace headrace
