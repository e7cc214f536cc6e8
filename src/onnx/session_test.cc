#include "onnx/session.h"

#include <gtest/gtest.h>

#include <thread>

namespace headrace::onnx {
namespace {

Model echo() {
  Model model;
  model.opsets[""] = 17;
  model.graph.inputs = {{"x", {.kind = Type::Kind::tensor, .dtype = DType::i64, .shape = {{{-1, "n"}}}}}, {"bias", {}}};
  model.graph.initializers["bias"] = Tensor::scalar(1.0f);
  model.graph.nodes = {{.op = "Identity", .inputs = {"x"}, .outputs = {"y"}}};
  model.graph.outputs = {{"y", {}}};
  return model;
}

TEST(Session, RunsInManyThreadsAtOnce) {
  const Session session = Session::make(echo(), {}).value();
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&session, &right, t] {
      for (int64_t i = 0; i < 50; ++i) {
        const auto outputs = session.run({{"x", Tensor::of<int64_t>({2}, {t, i})}});
        if (outputs && outputs->at("y").tensor()->data<int64_t>()[1] == i) ++right[static_cast<size_t>(t)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, (std::vector<int>{50, 50, 50, 50}));
}

TEST(Session, SaysWhatItsInputsAre) {
  const Session session = Session::make(echo(), {}).value();
  EXPECT_EQ(describe(session.inputs()[0].type), "i64 [n]");
  EXPECT_EQ(describe(session.inputs()[1].type), "unknown");
  EXPECT_FALSE(session.may_be_left_out(session.inputs()[0]));
  EXPECT_TRUE(session.may_be_left_out(session.inputs()[1]));
  const auto wrong = session.run({{"x", Tensor::of<float>({1}, {1})}});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().message(), "input x: want i64, got f32");
}

}  // namespace
}  // namespace headrace::onnx
