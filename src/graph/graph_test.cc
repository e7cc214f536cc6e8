#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/test_ops.h"

namespace headrace {
namespace {

using test_ops::NoAttrs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// a, b -> s = sum(a, b) -> t = sum(s, s), output "t"
struct Small {
  Graph graph;
  ValueId a, b, s, t;
  Small() {
    const Dim tokens = Dim::symbol(graph.symbols.add("T", 8));
    a = graph.add_input("a", DType::f32, {tokens, 4});
    b = graph.add_input("b", DType::f32, {tokens, 4});
    s = (*graph.add_node(test_ops::sum, NoAttrs{}, {a, b}, "s"))[0];
    t = (*graph.add_node(test_ops::sum, NoAttrs{7}, {s, s}, "t"))[0];
    graph.set_output("t", t);
  }
};

TEST(Graph, PrintsOneLineForEachNodeAndOutput) {
  EXPECT_EQ(Small().graph.to_string(),
            "%2 f32 [T, 4] = sum(@a, @b)  # s\n"
            "%3 f32 [T, 4] = sum(%2, %2) {tag=7}  # t\n"
            "output t = %3\n");
}

TEST(Graph, AnInsertedNodeMovesLaterNodesUp) {
  Small small;
  Graph& graph = small.graph;
  const ValueId c = (*graph.insert_node(1, test_ops::copy, NoAttrs{}, {small.s}, "c"))[0];
  EXPECT_EQ(graph.nodes[1].name, "c");
  EXPECT_EQ(graph.values[c].producer, 1);
  EXPECT_EQ(graph.values[small.s].producer, 0);
  EXPECT_EQ(graph.values[small.t].producer, 2);
  EXPECT_TRUE(verify(graph).ok()) << verify(graph).to_string();
}

TEST(Graph, ReplacesUsesInNodesAndOutputs) {
  Small small;
  small.graph.replace_uses(small.s, small.a);
  small.graph.replace_uses(small.t, small.b);
  EXPECT_THAT(small.graph.nodes[1].inputs, ElementsAre(small.a, small.a));
  EXPECT_EQ(small.graph.outputs[0].value, small.b);
}

TEST(Graph, ANodeThatReadsAValueTwiceIsOneUser) {
  Small small;
  const auto users = small.graph.users();
  EXPECT_THAT(users[small.a], ElementsAre(0));
  EXPECT_THAT(users[small.s], ElementsAre(1));
  EXPECT_THAT(users[small.t], ElementsAre());
}

TEST(Graph, CompactDropsDeadNodesAndKeepsValueIds) {
  Small small;
  Graph& graph = small.graph;
  graph.replace_uses(small.s, small.a);
  graph.nodes[0].dead = true;
  graph.compact();
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.values[small.s].producer, kNone);
  EXPECT_EQ(graph.values[small.t].producer, 0);
  EXPECT_TRUE(verify(graph).ok()) << verify(graph).to_string();
}

TEST(Graph, TrailingOptionalInputsThatAreLeftOutAreNotStored) {
  Small small;
  ASSERT_TRUE(small.graph.add_node(test_ops::sum, NoAttrs{}, {small.a, kNone}, "u"));
  EXPECT_THAT(small.graph.nodes.back().inputs, ElementsAre(small.a));
}

TEST(Graph, AnInferenceErrorNamesTheNodeAndTheOp) {
  Small small;
  const ValueId other = small.graph.add_input("other", DType::i32, {4});
  const auto result = small.graph.add_node(test_ops::sum, NoAttrs{}, {small.a, other}, "layers.3.broken");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(), "layers.3.broken (sum): inputs differ in type");
  EXPECT_EQ(small.graph.nodes.size(), 2u);
}

TEST(Graph, RecipesPrintTheirPartsAndRowRanges) {
  const WeightRecipe recipe{{{"q.weight"}, {"k.weight", 0, 64}, {"v.weight", 64, -1}}};
  EXPECT_EQ(recipe.describe(), "q.weight + k.weight[0:64] + v.weight[64:]");
}

TEST(GraphBuilder, KeepsTheFirstErrorAndDoesNothingAfterIt) {
  GraphBuilder builder;
  const ValueId x = builder.graph.add_input("x", DType::f32, {4});
  const ValueId y = builder.graph.add_input("y", DType::f32, {5});
  const ValueId bad = builder.node(test_ops::sum, NoAttrs{}, {x, y}, "first");
  const ValueId after = builder.node(test_ops::sum, NoAttrs{}, {bad, bad}, "second");
  EXPECT_EQ(after, kNone);
  const auto graph = builder.finish();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message(), "first (sum): inputs differ in type");
}

// Each breaks one rule of legal IR; the verifier names what is wrong.
std::string verdict(const Graph& graph) {
  const Status status = verify(graph);
  EXPECT_EQ(status.ok() ? Code::ok : Code::internal, status.code());
  return status.message();
}

TEST(Verifier, AcceptsALegalGraph) { EXPECT_EQ(verdict(Small().graph), ""); }

TEST(Verifier, RefusesAReadBeforeTheDefinition) {
  Small small;
  std::swap(small.graph.nodes[0], small.graph.nodes[1]);
  EXPECT_THAT(verdict(small.graph), HasSubstr("node 0 t (sum): reads s (value 2) before it is defined"));
}

TEST(Verifier, RefusesAReadOfADeadNodesValue) {
  Small small;
  small.graph.nodes[0].dead = true;
  EXPECT_THAT(verdict(small.graph), HasSubstr("reads s (value 2) before it is defined"));
}

TEST(Verifier, RefusesASecondProducer) {
  Small small;
  small.graph.nodes[1].outputs[0] = small.s;
  EXPECT_THAT(verdict(small.graph), HasSubstr("node 1 t (sum): output s (value 2) belongs to node 0"));
}

TEST(Verifier, RefusesATypeThatInferenceDoesNotGive) {
  Small small;
  small.graph.values[small.t].type.shape[1] = 5;
  EXPECT_THAT(verdict(small.graph), HasSubstr("output 0 has type f32 [T, 5], infer says f32 [T, 4]"));
}

TEST(Verifier, RefusesTheWrongNumberOfOutputs) {
  Small small;
  small.graph.nodes[1].outputs.clear();
  EXPECT_THAT(verdict(small.graph), HasSubstr("infer gives 1 outputs, the node has 0"));
}

TEST(Verifier, RefusesAnInputOutOfRange) {
  Small small;
  small.graph.nodes[1].inputs[0] = 99;
  EXPECT_THAT(verdict(small.graph), HasSubstr("node 1 t (sum): reads value 99"));
}

TEST(Verifier, RefusesAStateReadByAnOpWithoutThatEffect) {
  Small small;
  const ValueId state = small.graph.add_state("state", small.graph.values[small.a].type);
  small.graph.nodes[1].inputs = {state};
  EXPECT_THAT(verdict(small.graph), HasSubstr("reads state state but declares no effect on state"));
}

TEST(Verifier, RefusesAMissingOrRepeatedOutput) {
  Small small;
  small.graph.outputs.push_back({"t", small.s});
  EXPECT_THAT(verdict(small.graph), HasSubstr("output t: named twice"));
  small.graph.outputs.back() = {"u", 42};
  EXPECT_THAT(verdict(small.graph), HasSubstr("output u: value 42 does not exist"));
}

TEST(Verifier, RefusesAWeightWhosePartsDoNotMakeItsRows) {
  Small small;
  small.graph.add_weight("w", Format::f32, {8, 4}, WeightRecipe{{{"a", 0, 4}, {"b", 0, 3}}});
  EXPECT_THAT(verdict(small.graph), HasSubstr("weight w: its parts hold 7 rows, its shape 8"));
}

TEST(Verifier, RefusesAConstantWithoutBytes) {
  Small small;
  const ValueId constant = small.graph.add_constant("c", DType::f32, {2}, {1, 2});
  small.graph.values[constant].bytes = {};
  EXPECT_THAT(verdict(small.graph), HasSubstr("constant c: no bytes"));
}

}  // namespace
}  // namespace headrace
