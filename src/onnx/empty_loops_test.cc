// Loops that never turn. The ONNX document gives what they collect the type of the body's output with a first
// axis of 0; the body need not declare that type where it follows from its nodes.
#include <gtest/gtest.h>

#include "onnx/infer.h"
#include "testing/onnx_ways.h"

namespace headrace::onnx {
namespace {

using Inputs = std::map<std::string, Value>;

Attribute graph(Graph body) {
  return {.kind = Attribute::Kind::graph, .graphs = {std::make_shared<const Graph>(std::move(body))}};
}
Attribute integer(int64_t value) {
  return {.kind = Attribute::Kind::integer, .integer = value};
}

// y is what Loop(turns, true) collects of the body's output "out"; `turns` and "table" are inputs of the
// model.
Model loop_of(std::vector<Node> nodes, Type declared = {}) {
  Graph body;
  body.inputs = {{"i", {}}, {"go_on", {}}};
  body.nodes = std::move(nodes);
  body.outputs = {{"go_on", {}}, {"out", std::move(declared)}};
  Model model;
  model.opsets[""] = 20;
  model.graph.inputs = {{"turns", {}}, {"table", {}}};
  model.graph.nodes = {{.op = "Loop",
                        .inputs = {"turns", ""},
                        .outputs = {"y"},
                        .attributes = {{"body", graph(std::move(body))}}}};
  model.graph.outputs = {{"y", {}}};
  return model;
}

Inputs inputs_of(int64_t turns) {
  return {{"turns", Tensor::scalar(turns)}, {"table", Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6})}};
}

// A row of a table around the body, by the turn's number.
std::vector<Node> row_of_table() {
  return {{.op = "Gather", .inputs = {"table", "i"}, .outputs = {"out"}}};
}

TEST(EmptyLoops, CollectNothingOfTheTypeThatFollowsFromTheBody) {
  for (const testing::OnnxWay& way : testing::kOnnxWays) {
    SCOPED_TRACE(way.name);
    for (const int64_t turns : {2, 0}) {
      const auto got = way.run(loop_of(row_of_table()), inputs_of(turns));
      ASSERT_TRUE(got) << got.error().message();
      EXPECT_EQ(describe(type_of(got->at("y"))), turns == 0 ? "f64 [0, 3]" : "f64 [2, 3]");
    }
  }
}

TEST(EmptyLoops, WhatFollowsGoesBeforeWhatIsDeclared) {
  const auto facts = infer_types(loop_of(row_of_table(), tensor_type(DType::f32, Shape())),
                                 {{"table", tensor_type(DType::f64, Shape(2))}});
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->at("y").type.dtype, DType::f64);
  for (const testing::OnnxWay& way : testing::kOnnxWays) {
    SCOPED_TRACE(way.name);
    const auto got = way.run(loop_of(row_of_table(), tensor_type(DType::f32, Shape())), inputs_of(0));
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(got->at("y").tensor()->dtype(), DType::f64);
  }
}

// One branch gives f32, the other i64, and the condition is known in a turn alone.
std::vector<Node> either_type() {
  const auto branch = [](Node node) {
    Graph made;
    node.outputs = {"b"};
    made.nodes = {std::move(node)};
    made.outputs = {{"b", {}}};
    return graph(std::move(made));
  };
  return {{.op = "Constant", .outputs = {"two"}, .attributes = {{"value_int", integer(2)}}},
          {.op = "Less", .inputs = {"i", "two"}, .outputs = {"low"}},
          {.op = "If",
           .inputs = {"low"},
           .outputs = {"out"},
           .attributes = {{"then_branch", branch({.op = "Identity", .inputs = {"i"}})},
                          {"else_branch",
                           branch({.op = "Cast", .inputs = {"i"}, .attributes = {{"to", integer(1)}}})}}}};
}

TEST(EmptyLoops, TakeTheDeclaredTypeWhereNoneFollows) {
  for (const testing::OnnxWay& way : testing::kOnnxWays) {
    SCOPED_TRACE(way.name);
    const auto got = way.run(loop_of(either_type(), tensor_type(DType::i64, Shape())), inputs_of(0));
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(describe(type_of(got->at("y"))), "i64 [0]");
  }
}

TEST(EmptyLoops, AreRefusedWithoutAType) {
  for (const testing::OnnxWay& way : testing::kOnnxWays) {
    SCOPED_TRACE(way.name);
    const auto got = way.run(loop_of(either_type()), inputs_of(0));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), Code::malformed);
    EXPECT_NE(got.error().message().find(
                  "node 0 (Loop): no turn is taken, and what the body gives as \"out\" has no type"),
              std::string::npos)
        << got.error().message();
  }
}

TEST(EmptyLoops, AScanOfNothingCollectsAlongItsAxis) {
  Graph body;
  body.inputs = {{"e", {}}};
  body.nodes = {{.op = "Cast", .inputs = {"e"}, .outputs = {"out"}, .attributes = {{"to", integer(7)}}}};
  body.outputs = {{"out", {}}};
  Model model;
  model.opsets[""] = 20;
  model.graph.inputs = {{"x", {}}};
  const Attribute axes{.kind = Attribute::Kind::integers, .integers = {1}};
  model.graph.nodes = {
      {.op = "Scan",
       .inputs = {"x"},
       .outputs = {"y"},
       .attributes = {
           {"body", graph(std::move(body))}, {"num_scan_inputs", integer(1)}, {"scan_output_axes", axes}}}};
  model.graph.outputs = {{"y", {}}};
  for (const testing::OnnxWay& way : testing::kOnnxWays) {
    SCOPED_TRACE(way.name);
    const auto got = way.run(model, {{"x", Tensor(DType::f32, {0, 4})}});
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(describe(type_of(got->at("y"))), "i64 [4, 0]");
  }
}

// A body without a node is counted too: its loop would not end.
TEST(EmptyLoops, ABodyWithoutANodeStopsAtTheLimit) {
  for (const testing::OnnxWay& way : testing::kOnnxWays) {
    SCOPED_TRACE(way.name);
    Model model = loop_of({});
    Graph body = *model.graph.nodes[0].attributes["body"].graphs[0];
    body.outputs.pop_back();
    body.inputs.push_back({"s", {}});
    body.outputs.push_back({"s", {}});
    model.graph.nodes[0].attributes["body"] = graph(std::move(body));
    model.graph.nodes[0].inputs = {"", "", "table"};
    Session::Options options{.limits = {.nodes = 1000}, .threads = 1};
    options.reference = way.reference;
    const auto got = Session::make(model, options).value().run(inputs_of(0));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), Code::resource_exhausted);
  }
}

}  // namespace
}  // namespace headrace::onnx
