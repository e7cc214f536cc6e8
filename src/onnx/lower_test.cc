// Forms of operators that ONNX's backend tests leave out, compiled without a reference operator: against the reference operators.
#include "onnx/lower.h"

#include <gmock/gmock.h>

#include <random>

#include "onnx/interpreter.h"
#include "onnx/session.h"
#include "testing/onnx_compare.h"

namespace headrace::onnx {
namespace {

using ::testing::HasSubstr;
using Inputs = std::vector<std::optional<Tensor>>;  // nothing: left out

Tensor normal(Dims dims, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> number(0, scale);
  Tensor tensor(DType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = number(random);
  return tensor;
}

Attribute attribute(int64_t value) { return {.kind = Attribute::Kind::integer, .integer = value}; }
Attribute attribute(const std::string& value) { return {.kind = Attribute::Kind::text, .text = value}; }

struct OneNode {
  Model model;
  std::map<std::string, Value> inputs;
};

// The inputs that `constants` lists stand in the model.
OneNode one_node(const std::string& op, const Inputs& inputs, std::map<std::string, Attribute> attributes, const std::set<size_t>& constants = {},
                 size_t num_outputs = 1) {
  OneNode made;
  made.model.opsets[""] = 17;
  Node node{.op = op};
  node.attributes = std::move(attributes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back(inputs[i] ? "in" + std::to_string(i) : "");
    if (!inputs[i]) continue;
    if (constants.contains(i)) {
      made.model.graph.initializers[node.inputs[i]] = *inputs[i];
      continue;
    }
    ValueInfo info{node.inputs[i], {.kind = Type::Kind::tensor, .dtype = inputs[i]->dtype(), .shape = std::vector<Type::Dim>()}};
    for (const int64_t dim : inputs[i]->dims()) info.type.shape->push_back({dim, ""});
    made.model.graph.inputs.push_back(info);
    made.inputs[node.inputs[i]] = *inputs[i];
  }
  for (size_t i = 0; i < num_outputs; ++i) {
    node.outputs.push_back("out" + std::to_string(i));
    made.model.graph.outputs.push_back({node.outputs[i], {}});
  }
  made.model.graph.nodes = {node};
  return made;
}

Status difference_under_strict(const OneNode& made) {
  Session::Options options;
  options.compile.strict = true;
  const auto session = Session::make(made.model, options);
  if (!session) return session.error();
  const auto got = session->run(made.inputs), want = interpret(made.model, made.inputs);
  if (!want) return want.error();
  if (!got) return got.error();
  for (const auto& [name, value] : *want) {
    const std::string difference = testing::onnx_difference(got->at(name), value, {1e-5, 1e-5});
    if (!difference.empty()) return make_status(Code::internal, "{}: {}", name, difference);
  }
  return {};
}

class LstmForms : public ::testing::TestWithParam<std::tuple<std::string, bool, bool, bool>> {};

TEST_P(LstmForms, GiveWhatTheReferenceGives) {
  const auto& [direction, batch_first, with_lengths, with_states] = GetParam();
  constexpr int64_t kSteps = 5, kBatch = 3, kInputs = 6, kHidden = 18;
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const Dims x = batch_first ? Dims{kBatch, kSteps, kInputs} : Dims{kSteps, kBatch, kInputs};
  const Dims state = batch_first ? Dims{kBatch, directions, kHidden} : Dims{directions, kBatch, kHidden};
  Inputs inputs = {normal(x, 1), normal({directions, 4 * kHidden, kInputs}, 2, 0.4f), normal({directions, 4 * kHidden, kHidden}, 3, 0.3f)};
  inputs.resize(7);
  if (with_lengths) inputs[4] = Tensor::of<int32_t>({kBatch}, {5, 0, 3});
  if (with_states) {
    inputs[3] = normal({directions, 8 * kHidden}, 4);
    inputs[5] = normal(state, 5);
    inputs[6] = normal(state, 6);
  }
  const std::map<std::string, Attribute> attributes = {
      {"direction", attribute(direction)}, {"layout", attribute(int64_t{batch_first})}, {"hidden_size", attribute(kHidden)}};
  for (const std::set<size_t>& constants : {std::set<size_t>{1, 2, 3}, std::set<size_t>{}}) {
    const Status status = difference_under_strict(one_node("LSTM", inputs, attributes, constants, 3));
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

std::string name_of(const ::testing::TestParamInfo<LstmForms::ParamType>& info) {
  const auto& [direction, batch_first, lengths, states] = info.param;
  return direction + (batch_first ? "_batch_first" : "") + (lengths ? "_lengths" : "") + (states ? "_states" : "");
}

INSTANTIATE_TEST_SUITE_P(Lower, LstmForms,
                         ::testing::Combine(::testing::Values("forward", "reverse", "bidirectional"), ::testing::Bool(), ::testing::Bool(),
                                            ::testing::Bool()),
                         name_of);

TEST(LowerLstm, RefusesALengthBeyondTheSteps) {
  const Inputs inputs = {normal({4, 2, 3}, 1), normal({1, 20, 3}, 2), normal({1, 20, 5}, 3), std::nullopt, Tensor::of<int32_t>({2}, {4, 5})};
  const OneNode made = one_node("LSTM", inputs, {{"hidden_size", attribute(int64_t{5})}});
  const auto outputs = Session::make(made.model, {}).value().run(made.inputs);
  ASSERT_FALSE(outputs);
  EXPECT_THAT(outputs.error().message(), HasSubstr("5"));
  EXPECT_THAT(outputs.error().message(), HasSubstr("node 0 (LSTM)"));
}

TEST(LowerLstm, LeavesOtherCellsToTheReference) {
  Inputs inputs = {normal({2, 2, 3}, 1), normal({1, 20, 3}, 2), normal({1, 20, 5}, 3)};
  const auto reason = [&](const std::string& name, Attribute value) {
    const OneNode made = one_node("LSTM", inputs, {{"hidden_size", attribute(int64_t{5})}, {name, std::move(value)}});
    EXPECT_TRUE(Session::make(made.model, {}).value().run(made.inputs));
    return difference_under_strict(made).message();
  };
  EXPECT_THAT(reason("clip", {.kind = Attribute::Kind::number, .number = 0.5f}), HasSubstr("clip"));
  EXPECT_THAT(reason("input_forget", attribute(int64_t{1})), HasSubstr("input_forget"));
  EXPECT_THAT(reason("activations", {.kind = Attribute::Kind::texts, .texts = {"Sigmoid", "Relu", "Tanh"}}), HasSubstr("activations"));
  EXPECT_EQ(reason("activations", {.kind = Attribute::Kind::texts, .texts = {"Sigmoid", "Tanh", "Tanh"}}), "");
  inputs.resize(8);
  inputs[7] = normal({1, 15}, 4);
  EXPECT_THAT(reason("layout", attribute(int64_t{0})), HasSubstr("peepholes"));
}

TEST(LowerCompare, GivesWhatTheReferenceGivesOfEveryType) {
  const std::vector<Tensor> a = {Tensor::of<float>({3, 1}, {-1, 0, 2}), Tensor::of<int64_t>({3, 1}, {-1, (int64_t{1} << 53) + 1, 2}),
                                 Tensor::of<int32_t>({3, 1}, {-1, 0, 2}), Tensor::of<uint8_t>({3, 1}, {200, 0, 2})};
  const std::vector<Tensor> b = {Tensor::of<float>({2}, {0, 2}), Tensor::of<int64_t>({2}, {int64_t{1} << 53, 2}),
                                 Tensor::of<int32_t>({2}, {0, 2}), Tensor::of<uint8_t>({2}, {0, 200})};
  for (size_t i = 0; i < a.size(); ++i) {
    for (const char* op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
      const Status status = difference_under_strict(one_node(op, {a[i], b[i]}, {}));
      EXPECT_TRUE(status.ok()) << op << " " << dtype_name(a[i].dtype()) << ": " << status.to_string();
    }
  }
  const Tensor left = Tensor::of<bool>({2, 1}, {false, true}), right = Tensor::of<bool>({2}, {false, true});
  for (const char* op : {"And", "Or", "Xor", "Equal"}) {
    const Status status = difference_under_strict(one_node(op, {left, right}, {}));
    EXPECT_TRUE(status.ok()) << op << ": " << status.to_string();
  }
  EXPECT_TRUE(difference_under_strict(one_node("Not", {left}, {})).ok());
}

}  // namespace
}  // namespace headrace::onnx
