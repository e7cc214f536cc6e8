// The data operators beyond ONNX's backend tests and tests/cases/onnx_ops: what is wrong or hostile, what is empty, what a seed
// gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "onnx/interpreter.h"

namespace headrace::onnx {
namespace {

// One node, run by the interpreter.
struct OpCall {
  std::string op;
  std::vector<Value> inputs;  // one without a value is left out
  std::map<std::string, Attribute> attributes = {};
  int64_t opset = 28;
  int outputs = 1;
};

Attribute attr(int64_t value) { return {.kind = Attribute::Kind::integer, .integer = value}; }
Attribute attr(float value) { return {.kind = Attribute::Kind::number, .number = value}; }
Attribute attr(const char* value) { return {.kind = Attribute::Kind::text, .text = value}; }
Attribute attr(std::vector<int64_t> values) { return {.kind = Attribute::Kind::integers, .integers = std::move(values)}; }

Result<std::vector<Value>> run_op(const OpCall& call, const RunLimits& limits = {}) {
  Model model;
  model.opsets[""] = call.opset;
  Node node{.op = call.op};
  node.attributes = call.attributes;
  std::map<std::string, Value> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::string name = call.inputs[i].has_value() ? "x" + std::to_string(i) : "";
    node.inputs.push_back(name);
    if (name.empty()) continue;
    inputs[name] = call.inputs[i];
    model.graph.inputs.push_back({name, {}});
  }
  for (int i = 0; i < call.outputs; ++i) {
    node.outputs.push_back("y" + std::to_string(i));
    model.graph.outputs.push_back({node.outputs.back(), {}});
  }
  model.graph.nodes.push_back(std::move(node));
  auto results = interpret(model, inputs, limits);
  if (!results) return tl::unexpected(results.error());
  std::vector<Value> outputs;
  for (int i = 0; i < call.outputs; ++i) outputs.push_back(results->at("y" + std::to_string(i)));
  return outputs;
}

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(), kHighest = std::numeric_limits<int64_t>::max();

Value ints(std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::of({count}, values);
}
Value floats(Dims dims) { return Tensor(DType::f32, std::move(dims)); }
Value texts(std::vector<std::string> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::of({count}, values);
}

struct Refused {
  OpCall call;
  std::string says;  // a part of the message
};

TEST(DataOperators, RefuseWhatIsWrongAndSayWhy) {
  const Refused cases[] = {
      {{"Gather", {floats({3, 2}), ints({3})}}, "index: want -3 to 2, got 3"},
      {{"Gather", {floats({3, 2}), ints({kLowest})}}, "got -9223372036854775808"},
      {{"Gather", {floats({3, 2}), ints({0})}, {{"axis", attr(int64_t{2})}}}, "axis: want -2 to 1, got 2"},
      {{"Gather", {floats({0}), ints({0})}}, "index: want 0 to -1"},
      {{"GatherElements", {floats({2, 2}), Value(Tensor(DType::i64, {3, 2}))}, {{"axis", attr(int64_t{1})}}}, "do not lie in"},
      {{"GatherND", {floats({2, 2}), Value(Tensor::of<int64_t>({1, 2}, {0, 2}))}}, "index"},
      {{"GatherND", {floats({2}), Value(Tensor(DType::i64, {1, 2}))}}, "want 1 to 1 indices, got 2"},
      {{"GatherND", {floats({2}), Value(Tensor(DType::i64, {}))}}, "indices of rank 0"},
      {{"ScatterND", {floats({2}), Value(Tensor::of<int64_t>({1, 1}, {-3})), floats({1})}}, "index"},
      {{"ScatterND", {floats({2}), Value(Tensor::of<int64_t>({1, 1}, {0})), floats({2})}}, "updates: want f32 [1]"},
      {{"ScatterElements", {floats({2}), ints({0}), floats({1})}, {{"reduction", attr("max")}}, 16},
       "reduction \"max\" in opset 16"},
      {{"TensorScatter", {floats({1, 4, 2}), floats({1, 2, 2}), ints({3})}}, "3 for 2 of 4 places"},
      {{"TensorScatter", {floats({1, 4, 2}), floats({1, 2, 2}), ints({-1})}, {{"mode", attr("circular")}}}, "write_indices"},
      {{"Reshape", {floats({2, 3}), ints({-1, -1})}}, "more than one -1"},
      {{"Reshape", {floats({2, 3}), ints({-1, 4})}}, "do not fit"},
      {{"Reshape", {floats({2}), ints({2, 1, 0})}}, "a 0 that stands for no dim"},
      {{"Reshape", {floats({2}), ints({-2, -1})}}, "below 0"},
      {{"Reshape", {floats({0}), ints({0, kHighest, kHighest})}}, "more than"},
      {{"Expand", {floats({1}), ints({kHighest})}}, "more than"},
      {{"Expand", {floats({3}), ints({2})}}, "do not go together"},
      {{"Tile", {floats({2, 2}), ints({kHighest, 1})}}, "repeated"},
      {{"Tile", {floats({2}), ints({-1})}}, "below 0"},
      {{"Concat", {floats({2, 2}), floats({2, 3})}, {{"axis", attr(int64_t{0})}}}, "part 1"},
      {{"Concat", {floats({2}), ints({1})}, {{"axis", attr(int64_t{0})}}}, "part 1"},
      {{"Concat", {floats({}), floats({})}, {{"axis", attr(int64_t{0})}}}, "axis"},
      {{"Split", {floats({4}), ints({3, kHighest})}, {}, 13, 2}, "want a sum of 4"},
      {{"Split", {floats({4}), ints({2, 2})}, {}, 13, 3}, "2 parts, the node has 3 outputs"},
      {{"Slice", {floats({4}), ints({0}), ints({2}), ints({0}), ints({0})}}, "steps: 0"},
      {{"Slice", {floats({4}), ints({0}), ints({2}), ints({0, 0})}}, "twice"},
      {{"Pad", {floats({4}), ints({kHighest, kHighest})}}, "pads"},
      {{"Pad", {floats({4}), ints({-3, -3})}}, "pads -3 and -3"},
      {{"Pad", {floats({0}), ints({1, 0})}, {{"mode", attr("edge")}}}, "no elements to pad with"},
      {{"Pad", {floats({2}), ints({1, 0})}, {{"mode", attr("wrap")}}, 18}, "mode \"wrap\""},
      {{"Transpose", {floats({2, 2})}, {{"perm", attr(std::vector<int64_t>{0, 0})}}}, "twice"},
      {{"DepthToSpace", {floats({1, 3, 2, 2})}, {{"blocksize", attr(int64_t{2})}}}, "3 channels"},
      {{"SpaceToDepth", {floats({1, 1, 2, 2})}, {{"blocksize", attr(kHighest)}}}, "blocksize"},
      {{"ReverseSequence", {floats({2, 2}), ints({3, 1})}}, "want 0 to 2, got 3"},
      {{"CenterCropPad", {floats({2}), ints({-1})}}, "below 0"},
      {{"TopK", {floats({2}), ints({3})}, {}, 24, 2}, "k: want 0 to 2"},
      {{"TopK", {floats({}), ints({1})}, {}, 24, 2}, "axis"},
      {{"Compress", {floats({2}), Value(Tensor::of<bool>({3}, {false, false, true}))}}, "the axis has 2"},
      {{"OneHot", {ints({0}), ints({kHighest}), floats({2})}}, "more than"},
      {{"OneHot", {ints({0}), ints({-1}), floats({2})}}, "below 0"},
      {{"Range", {Value(Tensor::scalar<int64_t>(0)), Value(Tensor::scalar(kHighest)), Value(Tensor::scalar<int64_t>(1))}},
       "more than"},
      {{"Range", {Value(Tensor::scalar(0.0f)), Value(Tensor::scalar(1.0f)), Value(Tensor::scalar(0.0f))}}, "a delta of 0"},
      {{"Resize", {floats({1, 1}), Value(), Value(Tensor::of<float>({2}, {1e30f, 1}))}}, "becomes"},
      {{"Resize", {floats({1, 1}), Value(), Value(Tensor::of<float>({2}, {-1, 1}))}}, "above 0"},
      {{"Resize", {floats({1, 1}), Value(), Value(), ints({kHighest, 1})}}, "sizes"},
      {{"Resize", {floats({0, 1}), Value(), Value(), ints({2, 1})}}, "cannot become 2 long"},
      {{"Cast", {texts({"twelve"})}, {{"to", attr(int64_t{1})}}}, "\"twelve\" is not a number"},
      {{"Cast", {floats({1})}, {{"to", attr(int64_t{99})}}}, "99"},
      {{"BitCast", {floats({1})}, {{"to", attr(int64_t{7})}}}, "one width"},
      {{"QuantizeLinear", {floats({2, 3}), floats({2})}}, "3 of them for axis 1"},
      {{"QuantizeLinear", {floats({2, 3}), floats({2, 1})}, {{"block_size", attr(int64_t{2})}}}, "want [2, 2]"},
      {{"DequantizeLinear", {Value(Tensor(DType::u8, {2})), floats({}), Value(Tensor(DType::i8, {}))}}, "zero point: want u8"},
      {{"SequenceAt", {Value(Sequence{}), Value(Tensor::scalar<int64_t>(0))}}, "position"},
      {{"SequenceErase", {Value(Sequence{})}}, "position"},
      {{"SequenceInsert", {Value(Sequence{DType::i64, {}}), floats({1})}}, "a sequence of i64"},
      {{"ConcatFromSequence", {Value(Sequence{})}, {{"axis", attr(int64_t{0})}}}, "not empty"},
      {{"OptionalGetElement", {Value(Optional{})}}, "empty optional"},
      {{"Bernoulli", {Value(Tensor::scalar(1.5f))}}, "a probability of 1.5"},
      {{"RandomUniform", {}, {{"shape", attr(std::vector<int64_t>{kHighest, 2})}}}, "more than"},
      {{"RegexFullMatch", {texts({"a"})}, {{"pattern", attr("(a")}}}, "want )"},
      {{"RegexFullMatch", {texts({"a"})}, {{"pattern", attr("((a{1000}){1000}){1000}")}}}, "states"},
      {{"StringNormalizer", {texts({"a"})}, {{"locale", attr("tr_TR")}}}, "locale"},
  };
  for (const Refused& refused : cases) {
    const auto result = run_op(refused.call);
    ASSERT_FALSE(result.has_value()) << refused.call.op << ": " << refused.says;
    EXPECT_NE(result.error().message().find(refused.says), std::string::npos)
        << refused.call.op << ": " << result.error().to_string();
  }
}

// The one output's dims.
Dims dims_of(const OpCall& call) {
  const auto result = run_op(call);
  EXPECT_TRUE(result.has_value()) << call.op << ": " << result.error().to_string();
  return result && (*result)[0].tensor() != nullptr ? (*result)[0].tensor()->dims() : Dims{-1};
}

TEST(DataOperators, TakeEmptyTensorsAndScalars) {
  EXPECT_EQ(dims_of({"Gather", {floats({0, 3}), ints({})}}), (Dims{0, 3}));
  EXPECT_EQ(dims_of({"GatherND", {floats({2, 0}), Value(Tensor(DType::i64, {0, 1}))}}), (Dims{0, 0}));
  EXPECT_EQ(dims_of({"ScatterND", {floats({0}), Value(Tensor(DType::i64, {0, 1})), floats({0})}}), (Dims{0}));
  EXPECT_EQ(dims_of({"Transpose", {floats({})}}), (Dims{}));
  EXPECT_EQ(dims_of({"Transpose", {floats({0, 2})}}), (Dims{2, 0}));
  EXPECT_EQ(dims_of({"Slice", {floats({0}), ints({kHighest}), ints({kLowest}), ints({0}), ints({kLowest})}}), (Dims{0}));
  EXPECT_EQ(dims_of({"Slice", {floats({5}), ints({kHighest}), ints({kLowest}), ints({0}), ints({kLowest})}}), (Dims{1}));
  EXPECT_EQ(dims_of({"Concat", {floats({0, 2}), floats({3, 2})}, {{"axis", attr(int64_t{-2})}}}), (Dims{3, 2}));
  EXPECT_EQ(dims_of({"Tile", {floats({2, 0}), ints({3, 4})}}), (Dims{6, 0}));
  EXPECT_EQ(dims_of({"Pad", {floats({}), ints({})}}), (Dims{}));
  EXPECT_EQ(dims_of({"Pad", {floats({0, 2}), ints({1, 0, 1, 0})}}), (Dims{2, 2}));
  EXPECT_EQ(dims_of({"NonZero", {Value(Tensor::scalar(1.0f))}}), (Dims{0, 1}));
  EXPECT_EQ(dims_of({"TopK", {floats({2, 0}), ints({0})}, {}, 24, 2}), (Dims{2, 0}));
  EXPECT_EQ(dims_of({"Unique", {floats({0})}}), (Dims{0}));
  EXPECT_EQ(dims_of({"Compress", {floats({2, 0}), Value(Tensor(DType::boolean, {0}))}, {{"axis", attr(int64_t{0})}}}),
            (Dims{0, 0}));
  EXPECT_EQ(dims_of({"Resize", {floats({1, 0}), Value(), Value(), ints({3, 0})}}), (Dims{3, 0}));
  EXPECT_EQ(dims_of({"Trilu", {floats({2, 0})}}), (Dims{2, 0}));
  EXPECT_EQ(dims_of({"NonMaxSuppression", {floats({0, 0, 4}), floats({0, 2, 0}), ints({1})}}), (Dims{0, 3}));
  EXPECT_EQ(dims_of({"QuantizeLinear", {floats({0, 2}), floats({})}}), (Dims{0, 2}));
  EXPECT_EQ(dims_of({"StringSplit", {texts({})}, {}, 20, 2}), (Dims{0, 0}));
  EXPECT_EQ(dims_of({"ReverseSequence", {floats({0, 2}), ints({0, 0})}}), (Dims{0, 2}));
}

TEST(DataOperators, ChargeTextsByTheirLength) {
  const OpCall call{"Expand", {texts({std::string(1000, 'a')}), ints({1000})}};
  EXPECT_TRUE(run_op(call).has_value());
  EXPECT_FALSE(run_op(call, {.made_bytes = 500'000}).has_value());
  const OpCall concat{"Concat", {floats({1000}), floats({1000})}, {{"axis", attr(int64_t{0})}}};
  EXPECT_FALSE(run_op(concat, {.made_bytes = 7'999}).has_value());
}

TEST(DataOperators, CastDropsHighBitsAndKeepsTheRestOfNumbers) {
  const auto cast = [](const Value& from, int64_t to) { return *(*run_op({"Cast", {from}, {{"to", attr(to)}}}))[0].tensor(); };
  EXPECT_EQ(*cast(Value(Tensor::scalar<int16_t>(200)), 3).data<int8_t>(), -56);  // the document's example
  EXPECT_EQ(*cast(Value(Tensor::scalar(std::numeric_limits<uint64_t>::max())), 11).data<double>(), 0x1p64);
  EXPECT_EQ(*cast(Value(Tensor::scalar(std::numeric_limits<float>::quiet_NaN())), 7).data<int64_t>(), 0);
  EXPECT_EQ(*cast(Value(Tensor::scalar(1e30f)), 7).data<int64_t>(), kHighest);
  EXPECT_EQ(*cast(Value(Tensor::scalar<std::string>("-INF")), 1).data<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(*cast(Value(Tensor::scalar<std::string>("1e-5")), 11).data<double>(), 1e-5);
  EXPECT_EQ(*cast(Value(Tensor::scalar<std::string>("9223372036854775807")), 7).data<int64_t>(), kHighest);
  EXPECT_EQ(*cast(Value(Tensor::scalar(314.15926f)), 8).data<std::string>(), "314.15927");
}

TEST(DataOperators, ASeedGivesTheNumbersOfPhilox) {
  const OpCall call{
      "RandomUniform", {}, {{"shape", attr(std::vector<int64_t>{4})}, {"dtype", attr(int64_t{11})}, {"seed", attr(0.0f)}}, 22};
  const auto first = run_op(call), again = run_op(call);
  ASSERT_TRUE(first.has_value() && again.has_value());
  const auto values = (*first)[0].tensor()->values<double>();
  // Random123's known answer of philox4x32-10 for counter 0 and key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  EXPECT_EQ(values[0], static_cast<double>(0x6627e8d5e169c58d >> 11) * 0x1p-53);
  EXPECT_TRUE(std::ranges::equal(values, (*again)[0].tensor()->values<double>()));
  OpCall unseeded = call;
  unseeded.attributes.erase("seed");
  EXPECT_NE(*(*run_op(unseeded))[0].tensor()->data<double>(), *(*run_op(unseeded))[0].tensor()->data<double>());
}

// The mean and the spread of many draws lie within five standard errors of what was asked for.
TEST(DataOperators, RandomNumbersHaveTheirDistribution) {
  constexpr int64_t kCount = 20'000;
  const auto mean_of = [](const Value& value) {
    double sum = 0;
    for (const float x : value.tensor()->values<float>()) sum += static_cast<double>(x);
    return sum / static_cast<double>(kCount);
  };
  const std::map<std::string, Attribute> normal = {
      {"shape", attr(std::vector<int64_t>{kCount})}, {"mean", attr(3.0f)}, {"scale", attr(2.0f)}, {"seed", attr(1.0f)}};
  const Value drawn = (*run_op({"RandomNormal", {}, normal}))[0];
  EXPECT_NEAR(mean_of(drawn), 3, 5 * 2 / std::sqrt(kCount));
  double squares = 0;
  for (const float x : drawn.tensor()->values<float>()) squares += (static_cast<double>(x) - 3) * (static_cast<double>(x) - 3);
  EXPECT_NEAR(squares / kCount, 4, 5 * 4 * std::sqrt(2.0 / kCount));
  const Value chances = Tensor::of<float>({kCount}, std::vector<float>(kCount, 0.25f));
  EXPECT_NEAR(mean_of((*run_op({"Bernoulli", {chances}, {{"seed", attr(2.0f)}}}))[0]), 0.25,
              5 * std::sqrt(0.25 * 0.75 / kCount));
  const Value logs = Tensor::of<float>({1, 2}, {std::log(0.3f), std::log(0.7f)});
  const auto samples = run_op({"Multinomial", {logs}, {{"sample_size", attr(kCount)}, {"seed", attr(3.0f)}}});
  double ones = 0;
  for (const int32_t x : (*samples)[0].tensor()->values<int32_t>()) ones += x;
  EXPECT_NEAR(ones / kCount, 0.7, 5 * std::sqrt(0.21 / kCount));
}

}  // namespace
}  // namespace headrace::onnx
