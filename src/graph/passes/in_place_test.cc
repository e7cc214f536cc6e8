#include <gtest/gtest.h>

#include "graph/memory_plan.h"
#include "graph/pass_testing.h"
#include "ops/binary.h"
#include "ops/unary.h"

namespace headrace {
namespace {

using namespace pass_testing;

// x -> exp -> a; a + x -> b; relu(b) -> c; c * a -> d
struct Chain {
  Graph graph;
  ValueId x, a, b, c, d;
  Chain() {
    x = graph.add_input("x", DType::f32, {4, 16});
    a = node(graph, ops::unary, ops::UnaryAttrs{ops::UnaryKind::exp}, {x}, "a");
    b = node(graph, ops::binary, ops::BinaryAttrs{ops::BinaryKind::add}, {a, x}, "b");
    c = node(graph, ops::unary, ops::UnaryAttrs{ops::UnaryKind::relu}, {b}, "c");
    d = node(graph, ops::binary, ops::BinaryAttrs{ops::BinaryKind::mul}, {c, a}, "d");
    graph.set_output("d", d);
  }
};

TEST(InPlace, MarksTheLastReaderOfAComputedValue) {
  Chain chain;
  EXPECT_EQ(run_alone(chain.graph, "in_place"), 2);
  EXPECT_FALSE(chain.graph.nodes[0].in_place);  // x is the caller's
  EXPECT_FALSE(chain.graph.nodes[1].in_place);  // a is read again
  EXPECT_TRUE(chain.graph.nodes[2].in_place);
  EXPECT_TRUE(chain.graph.nodes[3].in_place);
}

TEST(InPlace, TakesAPlaceLess) {
  Chain with, without;
  ASSERT_EQ(run_alone(with.graph, "in_place"), 2);
  const std::vector<int64_t> no_scratch(4, 0);
  EXPECT_EQ(plan_memory(with.graph, Bindings(), no_scratch).arena_bytes, 2 * 256);
  EXPECT_EQ(plan_memory(without.graph, Bindings(), no_scratch).arena_bytes, 3 * 256);
}

TEST(InPlace, LeavesAnOutputOfTheGraphAlone) {
  Chain chain;
  chain.graph.set_output("c", chain.c);
  EXPECT_EQ(run_alone(chain.graph, "in_place"), 2);  // d may still take a's place
  const MemoryPlan plan = plan_memory(chain.graph, Bindings(), std::vector<int64_t>(4, 0));
  EXPECT_NE(plan.storage_of[chain.d], plan.storage_of[chain.c]);
}

}  // namespace
}  // namespace headrace
