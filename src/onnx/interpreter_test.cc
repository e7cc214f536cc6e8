// Graphs written by hand; expected values follow from the ONNX operator document.
#include "onnx/interpreter.h"

#include <gtest/gtest.h>

namespace headrace::onnx {
namespace {

TEST(Interpreter, ALoopCollectsWhatItsBodyGives) {
  auto body = std::make_shared<Graph>();
  body->inputs = {{"i", {}}, {"go", {}}, {"carried", {}}};
  body->outputs = {{"go", {}}, {"outer", {}}, {"i", {}}};
  Model model;
  model.opsets[""] = 18;
  Node loop{.op = "Loop", .inputs = {"count", "", "start"}, .outputs = {"last", "turns"}};
  loop.attributes["body"] = {.kind = Attribute::Kind::graph, .graphs = {body}};
  model.graph.nodes = {loop};
  model.graph.inputs = {{"count", {}}, {"start", {}}, {"outer", {}}};
  model.graph.outputs = {{"last", {}}, {"turns", {}}};
  const auto out = interpret(model, {{"count", Tensor::scalar<int64_t>(3)}, {"start", Tensor::scalar(1.5f)}, {"outer", Tensor::scalar(2.5f)}});
  ASSERT_TRUE(out.has_value()) << out.error().to_string();
  EXPECT_EQ(*out->at("last").tensor()->data<float>(), 2.5f);
  const Tensor& turns = *out->at("turns").tensor();
  EXPECT_EQ(turns.dims(), (Dims{3}));
  EXPECT_EQ(turns.data<int64_t>()[2], 2);
  const auto missing = interpret(model, {{"count", Tensor::scalar<int64_t>(3)}});
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message().find("start"), std::string::npos);
}

// Found by fuzz/onnx_model_fuzz.cc.
TEST(Interpreter, ANodeWithoutTheInputsThatItNeedsIsRefused) {
  Model model;
  model.opsets[""] = 18;
  model.graph.nodes = {{.op = "Identity", .outputs = {"y"}}};
  model.graph.outputs = {{"y", {}}};
  const auto out = interpret(model, {});
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().message(), "node 0 (Identity): input 0: none");
}

TEST(Interpreter, AnUnknownOperatorIsNamedWithItsNode) {
  Model model;
  model.opsets[""] = 18;
  model.graph.nodes = {{.name = "stem", .op = "Nonsense", .outputs = {"y"}}};
  model.graph.outputs = {{"y", {}}};
  const auto out = interpret(model, {});
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code(), Code::unsupported);
  EXPECT_NE(out.error().message().find("node 0 (Nonsense, \"stem\")"), std::string::npos) << out.error().message();
}

TEST(Interpreter, ARunIsBoundedWhereItIsAskedFor) {
  auto body = std::make_shared<Graph>();
  body->inputs = {{"i", {}}, {"go", {}}};
  body->outputs = {{"on", {}}};
  body->nodes = {{.op = "Identity", .inputs = {"go"}, .outputs = {"on"}}};
  auto model = std::make_shared<Model>();
  model->opsets[""] = 18;
  Node loop{.op = "Loop", .inputs = {"", ""}};
  loop.attributes["body"] = {.kind = Attribute::Kind::graph, .graphs = {body}};
  model->graph.nodes = {loop};
  const auto interpreter = Interpreter::make(model);
  ASSERT_TRUE(interpreter.has_value()) << interpreter.error().to_string();
  const auto out = interpreter->run({}, {.nodes = 1000});
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code(), Code::resource_exhausted);
}

// f0 calls f1 twice, f1 calls f2 twice, and so on.
TEST(Interpreter, FunctionsThatExpandWithoutEndAreRefused) {
  auto model = std::make_shared<Model>();
  model->opsets[""] = 18;
  model->opsets["own"] = 1;
  for (int i = 0; i < 40; ++i) {
    const Node call{.op = fmt::format("f{}", i + 1), .domain = "own", .inputs = {"x"}, .outputs = {"y"}};
    Node again = call;
    again.inputs = {"y"};
    again.outputs = {"z"};
    model->functions.push_back({.name = fmt::format("f{}", i), .domain = "own", .inputs = {"x"}, .outputs = {"z"}, .nodes = {call, again}});
  }
  model->functions.push_back({.name = "f40", .domain = "own", .inputs = {"x"}, .outputs = {"x"}});
  model->graph.inputs = {{"x", {}}};
  model->graph.outputs = {{"y", {}}};
  model->graph.nodes = {{.op = "f0", .domain = "own", .inputs = {"x"}, .outputs = {"y"}}};
  const auto interpreter = Interpreter::make(model);
  ASSERT_FALSE(interpreter.has_value());
  EXPECT_EQ(interpreter.error().code(), Code::resource_exhausted) << interpreter.error().message();
}

TEST(Interpreter, AFunctionsAttributesComeFromItsCallOrItsDefaults) {
  auto model = std::make_shared<Model>();
  model->opsets[""] = 18;
  model->opsets["own"] = 1;
  Node body{.op = "Constant", .outputs = {"y"}};
  body.attributes["value_int"] = {.kind = Attribute::Kind::integer, .reference = "number"};
  Function function{.name = "given", .domain = "own", .outputs = {"y"}, .nodes = {body}, .opsets = {{"", 18}}};
  function.defaults["number"] = {.kind = Attribute::Kind::integer, .integer = 7};
  model->functions = {function};
  Node plain{.op = "given", .domain = "own", .outputs = {"a"}}, asked{.op = "given", .domain = "own", .outputs = {"b"}};
  asked.attributes["number"] = {.kind = Attribute::Kind::integer, .integer = 9};
  model->graph.nodes = {plain, asked};
  model->graph.outputs = {{"a", {}}, {"b", {}}};
  const auto out = interpret(*model, {});
  ASSERT_TRUE(out.has_value()) << out.error().to_string();
  EXPECT_EQ(*out->at("a").tensor()->data<int64_t>(), 7);
  EXPECT_EQ(*out->at("b").tensor()->data<int64_t>(), 9);
}

}  // namespace
}  // namespace headrace::onnx
