#include "graph/pass_testing.h"
#include "graph/test_ops.h"
#include "ops/host.h"

namespace headrace {
namespace {

using namespace pass_testing;
using test_ops::NoAttrs;

TEST(CommonSubexpressions, ComputesEqualChainsOnce) {
  WithInput p(4);
  std::vector<ValueId> ends;
  for (const char* name : {"a", "b"}) {
    const ValueId first = node(p.graph, test_ops::sum, NoAttrs{}, {p.x}, name);
    ends.push_back(node(p.graph, test_ops::copy, NoAttrs{3}, {first}, name));
  }
  p.graph.set_output("y", node(p.graph, test_ops::sum, NoAttrs{}, ends, "y"));
  EXPECT_EQ(run_alone(p.graph, "common_subexpressions"), 2);
  EXPECT_EQ(p.graph.to_string(),
            "%1 f32 [T, 4] = sum(@x)  # a\n"
            "%2 f32 [T, 4] = copy(%1) {tag=3}  # a\n"
            "%5 f32 [T, 4] = sum(%2, %2)  # y\n"
            "output y = %5\n");
}

TEST(CommonSubexpressions, KeepsNodesThatDifferInAttributesInputsOrOp) {
  WithInput p(4);
  p.graph.set_output("a", node(p.graph, test_ops::copy, NoAttrs{1}, {p.x}, "a"));
  p.graph.set_output("b", node(p.graph, test_ops::copy, NoAttrs{2}, {p.x}, "b"));
  p.graph.set_output("c", node(p.graph, test_ops::sum, NoAttrs{1}, {p.x}, "c"));
  p.graph.set_output("d", node(p.graph, test_ops::sum, NoAttrs{1}, {p.x, p.x}, "d"));
  EXPECT_EQ(run_alone(p.graph, "common_subexpressions"), 0);
}

TEST(CommonSubexpressions, KeepsReadsOfStateAndRandomDraws) {
  WithInput p(4);
  const ValueId state = p.graph.add_state("state", ValueType::tensor(DType::f32, {4}));
  for (const char* name : {"a", "b"}) {
    p.graph.set_output(fmt::format("{}.load", name), node(p.graph, test_ops::load, NoAttrs{}, {state}, name));
    p.graph.set_output(fmt::format("{}.draw", name), node(p.graph, test_ops::draw, NoAttrs{}, {p.x}, name));
  }
  EXPECT_EQ(run_alone(p.graph, "common_subexpressions"), 0);
  EXPECT_EQ(p.graph.nodes.size(), 4u);
}

struct NoFunction final : ops::HostFunction {
  Status run(std::span<const TensorView>, std::span<const TensorView>) const override { return {}; }
};

TEST(CommonSubexpressions, KeepsOperatorsOfTheHostThatGiveAnotherResultEachTime) {
  for (const bool pure : {true, false}) {
    WithInput p(4);
    const auto function = std::make_shared<NoFunction>();
    for (const char* name : {"a", "b", "unread"}) {
      const ops::HostAttrs attrs{name[0] == 'u' ? "Other" : "Some", function, {ValueType::tensor(DType::f32, {2})}, pure};
      const ValueId value = node(p.graph, ops::host, attrs, {p.x}, name);
      if (name[0] != 'u') p.graph.set_output(name, value);
    }
    EXPECT_EQ(run_alone(p.graph, "common_subexpressions"), pure ? 1 : 0);
    EXPECT_EQ(run_alone(p.graph, "dead_code"), pure ? 1 : 0);
  }
}

}  // namespace
}  // namespace headrace
