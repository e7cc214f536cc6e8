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

}  // namespace
}  // namespace headrace::onnx
