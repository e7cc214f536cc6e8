// What ONNX's backend tests leave out of the arithmetic operators: hostile attributes and inputs, empty tensors, the ends of
// types. Expected values follow from the ONNX operator document (onnx 1.23), by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "onnx/interpreter.h"

namespace headrace::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Attribute integer(int64_t value) { return {.kind = Attribute::Kind::integer, .integer = value}; }
Attribute integers(std::vector<int64_t> values) { return {.kind = Attribute::Kind::integers, .integers = std::move(values)}; }
Attribute text(std::string value) { return {.kind = Attribute::Kind::text, .text = std::move(value)}; }

using Attributes = std::map<std::string, Attribute>;

// The first output of one node.
Result<Tensor> run(const std::string& op, int64_t opset, const std::vector<Tensor>& inputs, const Attributes& attributes = {}) {
  Model model;
  model.opsets[""] = opset;
  Node node{.op = op, .outputs = {"y"}, .attributes = attributes};
  std::map<std::string, Value> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back("x" + std::to_string(i));
    model.graph.inputs.push_back({node.inputs.back(), {}});
    values[node.inputs.back()] = inputs[i];
  }
  model.graph.nodes = {node};
  model.graph.outputs = {{"y", {}}};
  HR_ASSIGN_OR_RETURN(const auto outputs, interpret(model, values));
  return *outputs.at("y").tensor();
}

template <class T>
std::vector<T> values(const Result<Tensor>& tensor) {
  if (!tensor) {
    ADD_FAILURE() << tensor.error().to_string();
    return {};
  }
  return {tensor->values<T>().begin(), tensor->values<T>().end()};
}

#define EXPECT_ERROR(result, wanted, part)                                 \
  do {                                                                     \
    const auto got = (result);                                             \
    ASSERT_FALSE(got.has_value());                                         \
    EXPECT_EQ(got.error().code(), wanted) << got.error().to_string();      \
    EXPECT_THAT(got.error().message(), HasSubstr(part));                   \
  } while (false)

Tensor zeros(Dims dims, DType dtype = DType::f32) { return Tensor(dtype, std::move(dims)); }

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();

TEST(Elementwise, IntegersWrapAroundAndAreNotDividedByZero) {
  const Tensor a = Tensor::of<int32_t>({3}, {kLowest, 7, -7}), b = Tensor::of<int32_t>({3}, {-1, 2, 2});
  EXPECT_THAT(values<int32_t>(run("Div", 14, {a, b})), ElementsAre(kLowest, 3, -3));
  EXPECT_THAT(values<int32_t>(run("Mod", 13, {a, b})), ElementsAre(0, 1, 1));
  EXPECT_THAT(values<int32_t>(run("Mod", 13, {a, b}, {{"fmod", integer(1)}})), ElementsAre(0, 1, -1));
  EXPECT_THAT(values<int32_t>(run("Mul", 14, {a, b})), ElementsAre(kLowest, 14, -14));
  EXPECT_THAT(values<int32_t>(run("Abs", 13, {a})), ElementsAre(kLowest, 7, 7));
  EXPECT_ERROR(run("Div", 14, {a, zeros({3}, DType::i32)}), Code::invalid_argument, "divided by zero");
  EXPECT_ERROR(run("Mod", 13, {a, zeros({3}, DType::i32)}), Code::invalid_argument, "divided by zero");
}

// The table of Mod, opset 28.
TEST(Elementwise, TheRemainderOfFloatsHasTheDivisorsSignAtTheEndsToo) {
  const Tensor a = Tensor::of<float>({8}, {-0.0f, 0, 3, -3, 3, -3, kInf, 1});
  const Tensor b = Tensor::of<float>({8}, {2, -2, kInf, kInf, -kInf, -kInf, 2, 0});
  const std::vector<float> got = values<float>(run("Mod", 28, {a, b}));
  ASSERT_EQ(got.size(), 8u);
  EXPECT_TRUE(got[0] == 0 && !std::signbit(got[0]));
  EXPECT_TRUE(got[1] == 0 && std::signbit(got[1]));
  EXPECT_EQ(std::vector<float>(got.begin() + 2, got.begin() + 6), (std::vector<float>{3, kInf, -kInf, -3}));
  EXPECT_TRUE(std::isnan(got[6]) && std::isnan(got[7]));
}

TEST(Elementwise, ShiftsBeyondTheTypeLeaveTheSignAlone) {
  const Tensor x = Tensor::of<int8_t>({4}, {-8, 8, -8, 8}), y = Tensor::of<int8_t>({4}, {8, 8, -1, 100});
  EXPECT_THAT(values<int8_t>(run("BitShift", 28, {x, y}, {{"direction", text("RIGHT")}})), ElementsAre(-1, 0, -1, 0));
  EXPECT_THAT(values<int8_t>(run("BitShift", 28, {x, y}, {{"direction", text("LEFT")}})), ElementsAre(0, 0, 0, 0));
  EXPECT_ERROR(run("BitShift", 28, {x, y}, {{"direction", text("UP")}}), Code::malformed, "LEFT or RIGHT");
}

TEST(Elementwise, ShapesThatDoNotGoTogetherAreRefused) {
  EXPECT_ERROR(run("Add", 14, {zeros({2, 3}), zeros({2})}), Code::malformed, "do not go together");
  EXPECT_ERROR(run("Add", 14, {zeros({2}), zeros({2}, DType::f64)}), Code::malformed, "one type");
  // Each is small, what they make is not.
  EXPECT_ERROR(run("Add", 14, {zeros({1 << 18, 1}), zeros({1, 1 << 18})}), Code::resource_exhausted, "elements");
  EXPECT_EQ(run("Add", 14, {zeros({0, 3}), zeros({1})}).value().dims(), (Dims{0, 3}));
}

TEST(Reductions, OfNothing) {
  const Tensor none = zeros({2, 0});
  EXPECT_THAT(values<float>(run("ReduceSum", 13, {none, Tensor::of<int64_t>({1}, {1})})), ElementsAre(0, 0));
  EXPECT_THAT(values<float>(run("ReduceProd", 18, {none, Tensor::of<int64_t>({1}, {-1})})), ElementsAre(1, 1));
  EXPECT_THAT(values<float>(run("ReduceMax", 20, {none, Tensor::of<int64_t>({1}, {1})})), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(values<float>(run("ReduceLogSumExp", 18, {none, Tensor::of<int64_t>({1}, {1})})), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(values<int32_t>(run("ReduceMin", 20, {zeros({0}, DType::i32)})),
              ElementsAre(std::numeric_limits<int32_t>::max()));
  EXPECT_ERROR(run("ArgMax", 13, {none}, {{"axis", integer(1)}}), Code::malformed, "empty axis");
  EXPECT_ERROR(run("ReduceSum", 13, {none, Tensor::of<int64_t>({1}, {2})}), Code::malformed, "axis");
}

TEST(MatMul, OverNoColumnsIsZero) {
  EXPECT_THAT(values<float>(run("MatMul", 13, {zeros({2, 0}), zeros({0, 2})})), ElementsAre(0, 0, 0, 0));
  EXPECT_ERROR(run("MatMul", 13, {zeros({2, 3}), zeros({2, 3})}), Code::malformed, "do not go together");
  EXPECT_ERROR(run("MatMul", 13, {zeros({}), zeros({2, 3})}), Code::malformed, "rank 1");
}

TEST(Einsum, EquationsThatSayNothingAreRefused) {
  const Tensor x = zeros({2, 2});
  EXPECT_ERROR(run("Einsum", 12, {x}, {{"equation", text("ijk->i")}}), Code::malformed, "rank 2");
  EXPECT_ERROR(run("Einsum", 12, {x}, {{"equation", text("ij->k")}}), Code::malformed, "result's labels");
  EXPECT_ERROR(run("Einsum", 12, {x}, {{"equation", text("i,j->ij")}}), Code::malformed, "");
  EXPECT_ERROR(run("Einsum", 12, {x}, {{"equation", text("..ij->i")}}), Code::malformed, "dots");
  EXPECT_ERROR(run("Einsum", 12, {x}, {{"equation", text("i1->i")}}), Code::malformed, "letters");
}

// Multiplied axis by axis it would take 10^13 steps.
TEST(Einsum, AxesOfOneOperandAloneAreSummedFirst) {
  Tensor x = zeros({2000, 2000});
  std::fill_n(x.data<float>(), x.elements(), 0.5f);
  EXPECT_THAT(values<float>(run("Einsum", 12, {x, x}, {{"equation", text("ab,cd->")}})), ElementsAre(2e6f * 2e6f));
}

TEST(Conv, HostileAttributesAreRefused) {
  const Tensor x = zeros({1, 2, 4, 4}), w = zeros({2, 2, 3, 3});
  EXPECT_ERROR(run("Conv", 11, {x, w}, {{"strides", integers({0, 1})}}), Code::malformed, "strides");
  EXPECT_ERROR(run("Conv", 11, {x, w}, {{"strides", integers({1})}}), Code::malformed, "want 2 numbers");
  EXPECT_ERROR(run("Conv", 11, {x, w}, {{"pads", integers({0, 0, -1, 0})}}), Code::malformed, "pads");
  EXPECT_ERROR(run("Conv", 11, {x, w}, {{"dilations", integers({std::numeric_limits<int64_t>::max(), 1})}}), Code::malformed,
               "dilations");
  EXPECT_ERROR(run("Conv", 11, {x, w}, {{"dilations", integers({3, 1})}}), Code::malformed, "does not fit");
  EXPECT_ERROR(run("Conv", 11, {x, w}, {{"group", integer(0)}}), Code::malformed, "group 0");
  EXPECT_ERROR(run("Conv", 11, {x, w}, {{"pads", integers({1 << 20, 1 << 20, 0, 0})}}), Code::resource_exhausted, "elements");
  EXPECT_ERROR(run("Conv", 11, {x, w}, {{"auto_pad", text("SOME")}}), Code::malformed, "auto_pad");
  EXPECT_ERROR(run("ConvTranspose", 11, {x, w}, {{"pads", integers({9, 9, 9, 9})}}), Code::malformed, "an output of");
  EXPECT_EQ(run("Conv", 11, {zeros({0, 2, 4, 4}), w}).value().dims(), (Dims{0, 2, 2, 2}));
}

// floor((4 - 5) / 1) + 1 and ceil((4 - 5) / 2) + 1.
TEST(Pools, AWindowOneTooLongGivesNothingOrWithCeilModeOne) {
  const Tensor x = Tensor::of<float>({1, 1, 4}, {1, 4, 2, 3});
  EXPECT_EQ(run("MaxPool", 12, {x}, {{"kernel_shape", integers({5})}}).value().dims(), (Dims{1, 1, 0}));
  const Attributes attributes = {{"kernel_shape", integers({5})}, {"strides", integers({2})}, {"ceil_mode", integer(1)}};
  EXPECT_THAT(values<float>(run("MaxPool", 12, {x}, attributes)), ElementsAre(4));
  EXPECT_EQ(run("Conv", 11, {x, zeros({2, 1, 5})}).value().dims(), (Dims{1, 2, 0}));
}

// "VALID: ceil((in - extent + 1) / stride)", whatever ceil_mode says.
TEST(Pools, CeilModeDoesNotLengthenAValidOutput) {
  const Attributes attributes = {
      {"kernel_shape", integers({2})}, {"strides", integers({3})}, {"ceil_mode", integer(1)}, {"auto_pad", text("VALID")}};
  EXPECT_EQ(run("MaxPool", 12, {zeros({1, 1, 7})}, attributes).value().dims(), (Dims{1, 1, 2}));
}

TEST(Pools, HostileAttributesAreRefused) {
  const Tensor x = zeros({1, 1, 4, 4});
  EXPECT_ERROR(run("MaxPool", 12, {x}), Code::malformed, "kernel_shape");
  EXPECT_ERROR(run("MaxPool", 12, {x}, {{"kernel_shape", integers({9, 1})}}), Code::malformed, "does not fit");
  EXPECT_ERROR(run("AveragePool", 19, {x}, {{"kernel_shape", integers({1 << 28, 1 << 28})}}), Code::resource_exhausted,
               "elements");
  EXPECT_ERROR(run("LpPool", 18, {x}, {{"kernel_shape", integers({2, 2})}, {"p", integer(0)}}), Code::malformed, "p:");
  EXPECT_ERROR(
      run("MaxUnpool", 11, {zeros({1, 1, 1, 1}), Tensor::of<int64_t>({1, 1, 1, 1}, {4})}, {{"kernel_shape", integers({2, 2})}}),
      Code::invalid_argument, "index 4");
}

TEST(Indices, ThatPointOutsideAreRefused) {
  const Tensor roi = zeros({1, 4}), far = Tensor::of<int64_t>({1}, {2});
  EXPECT_ERROR(run("RoiAlign", 16, {zeros({2, 1, 4, 4}), roi, far}), Code::invalid_argument, "image 2 of 2");
  EXPECT_ERROR(run("NegativeLogLikelihoodLoss", 13, {zeros({1, 2}), far}), Code::invalid_argument, "label 2");
  EXPECT_ERROR(
      run("RotaryEmbedding", 23, {zeros({1, 1, 1, 4}), zeros({2, 2}), zeros({2, 2}), Tensor::of<int64_t>({1, 1}, {2})}),
      Code::invalid_argument, "position 2");
  EXPECT_ERROR(
      run("LSTM", 14, {zeros({2, 1, 3}), zeros({1, 8, 3}), zeros({1, 8, 2}), zeros({1, 16}), Tensor::of<int32_t>({1}, {3})}),
      Code::malformed, "sequence_lens");
}

TEST(Signals, LengthsAreBounded) {
  EXPECT_ERROR(run("HannWindow", 17, {Tensor::scalar<int64_t>(int64_t{1} << 40)}), Code::resource_exhausted, "elements");
  EXPECT_ERROR(run("HannWindow", 17, {Tensor::scalar<int64_t>(-1)}), Code::malformed, "below 0");
  EXPECT_ERROR(run("DFT", 17, {zeros({1, 4, 1}), Tensor::scalar<int64_t>(0)}), Code::malformed, "dft_length");
  EXPECT_ERROR(run("STFT", 17, {zeros({1, 4, 1}), Tensor::scalar<int64_t>(0)}), Code::malformed, "frames");
  EXPECT_ERROR(run("MelWeightMatrix", 17,
                   {Tensor::scalar<int64_t>(4), Tensor::scalar<int64_t>(16), Tensor::scalar<int64_t>(8000),
                    Tensor::scalar(0.0f), Tensor::scalar(99999.0f)}),
               Code::malformed, "a band at");
}

}  // namespace
}  // namespace headrace::onnx
