// Goldens: tests/golden/onnx_types, by the package onnx (tools/golden/onnx_types.py). That the rules hold of real values is checked by
// onnx_backend on ONNX's own tests.
#include "onnx/shape_inference.h"

#include <gtest/gtest.h>

#include <limits>

#include "onnx/file.h"
#include "testing/golden.h"
#include "testing/golden_json.h"

namespace headrace::onnx {
namespace {

constexpr int64_t kOpset = 19;

ValueFact typed(DType dtype, std::vector<Type::Dim> shape) {
  return {
      .type = {.kind = Type::Kind::tensor, .dtype = dtype, .shape = std::move(shape), .element = nullptr}};
}
ValueFact floats(std::vector<Type::Dim> shape) { return typed(DType::f32, std::move(shape)); }
ValueFact list(const std::vector<int64_t>& values) {
  ValueFact fact = typed(DType::i64, {{static_cast<int64_t>(values.size()), ""}});
  fact.constant = Tensor::of({static_cast<int64_t>(values.size())}, values);
  return fact;
}

struct Case {
  std::string op;
  std::vector<ValueFact> inputs;
  std::map<std::string, int64_t> attributes;

  Result<std::vector<ValueFact>> infer(const InferOptions& options = {}) const {
    Node node;
    node.op = op;
    node.outputs = {"y"};
    for (size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back("x" + std::to_string(i));
    for (const auto& [name, value] : attributes) node.attributes[name].integer = value;
    return infer_node(node, kOpset, inputs, options);
  }
};

std::string error_of(const Case& test) {
  const auto facts = test.infer();
  return facts ? "" : facts.error().message();
}

DType dtype_of(const std::string& name) {
  const std::map<std::string, DType> names = {
      {"FLOAT", DType::f32}, {"FLOAT16", DType::f16}, {"INT64", DType::i64}, {"INT8", DType::i8}, {"BOOL", DType::boolean}};
  return names.at(name);
}

TEST(InferTypes, KnowsAllThatTheReferenceKnowsAndNothingElse) {
  const auto golden = testing::golden_json("onnx_types/types.json");
  EXPECT_GE(golden.size(), 50u);
  for (const auto& [name, types] : golden.items()) {
    SCOPED_TRACE(name);
    const auto model = read_model(testing::golden_path("onnx_types/" + name + ".onnx"));
    ASSERT_TRUE(model) << model.error().message();
    const auto facts = infer_types(*model);
    ASSERT_TRUE(facts) << facts.error().message();
    for (const auto& [value, wanted] : types.items()) {
      SCOPED_TRACE(value);
      const Type& type = facts->at(value).type;
      ASSERT_EQ(type.kind, Type::Kind::tensor);
      EXPECT_EQ(type.dtype, dtype_of(wanted[0]));
      if (wanted[1].is_null()) continue;
      ASSERT_TRUE(type.shape);
      ASSERT_EQ(type.shape->size(), wanted[1].size());
      for (size_t i = 0; i < type.shape->size(); ++i) {
        const Type::Dim& dim = (*type.shape)[i];
        if (wanted[1][i].is_number()) {
          EXPECT_EQ(dim.value, wanted[1][i].get<int64_t>());
        } else if (wanted[1][i].is_string()) {
          EXPECT_EQ(dim.symbol, wanted[1][i].get<std::string>());
        }
      }
    }
  }
}

TEST(InferTypes, InputsMayBeGivenOtherDims) {
  const auto model = read_model(testing::golden_path("onnx_types/reshape_chain.onnx"));
  ASSERT_TRUE(model) << model.error().message();
  const Type given = floats({{5, ""}, {6, ""}, {32, ""}}).type;
  const auto facts = infer_types(*model, {{"x", given}});
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(describe(facts->at("y").type), "f32 [5, 24, 8]");
  ASSERT_TRUE(facts->at("c").constant);
  EXPECT_EQ(facts->at("c").constant->data<int64_t>()[0], 5);

  EXPECT_EQ(infer_types(*model, {{"x", floats({{5, ""}, {6, ""}, {33, ""}}).type}}).error().message(),
            "input x: want f32 [N, S, 32], got f32 [5, 6, 33]");
  EXPECT_EQ(infer_types(*model, {{"z", given}}).error().code(), Code::invalid_argument);
}

TEST(InferNode, SaysWhatContradictsTheOperator) {
  EXPECT_EQ(error_of({"Add", {floats({{2, ""}}), floats({{3, ""}})}, {}}), "dims [2] and [3] do not go together");
  EXPECT_EQ(error_of({"Add", {floats({}), typed(DType::i64, {})}, {}}), "want inputs of one type, got f32 and i64");
  EXPECT_EQ(error_of({"MatMul", {floats({{2, ""}, {3, ""}}), floats({{4, ""}, {2, ""}})}, {}}),
            "a matrix product: dims [2, 3] and [4, 2] do not go together");
  EXPECT_EQ(error_of({"Gemm", {floats({{2, ""}}), floats({{4, ""}, {2, ""}})}, {}}), "A: want rank 2, got dims [2]");
  EXPECT_EQ(error_of({"Softmax", {floats({{2, ""}, {-1, "N"}})}, {{"axis", 2}}}), "axis: want -2 to 1, got 2");
  EXPECT_EQ(error_of({"Concat", {floats({{2, ""}, {3, ""}}), floats({{2, ""}, {4, ""}})}, {{"axis", 0}}}),
            "part 1: want dims [?, 3], got [?, 4]");
  EXPECT_EQ(error_of({"Reshape", {floats({{2, ""}, {3, ""}}), list({4, -1})}, {}}), "dims [2, 3] as [4, ?]: the elements do not fit");
  EXPECT_EQ(error_of({"Relu", {}, {}}), "input 0: want a tensor, got none");
  EXPECT_EQ(error_of({"Gelu", {floats({})}, {}}), "no operator Gelu in opset 19");
}

TEST(InferNode, AnErrorNeedsTwoThingsThatAreKnown) {
  EXPECT_EQ(error_of({"Add", {floats({{-1, "N"}}), floats({{3, ""}})}, {}}), "");
  EXPECT_EQ(error_of({"MatMul", {floats({{2, ""}, {-1, ""}}), floats({{4, ""}, {2, ""}})}, {}}), "");
  EXPECT_EQ(error_of({"Relu", {ValueFact()}, {}}), "");
}

TEST(InferNode, HugeDimsNeitherOverflowNorAllocate) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const auto flat = Case{"Flatten", {floats({{2, ""}, {kHuge, ""}, {kHuge, ""}})}, {}}.infer();
  ASSERT_TRUE(flat) << flat.error().message();
  EXPECT_EQ(describe((*flat)[0].type), "f32 [2, ?]");
  const auto size = Case{"Size", {floats({{kHuge, ""}, {3, ""}})}, {}}.infer();
  ASSERT_TRUE(size);
  EXPECT_FALSE((*size)[0].constant);
  const auto filled = Case{"ConstantOfShape", {list({kHuge, kHuge})}, {}}.infer();
  ASSERT_TRUE(filled) << filled.error().message();
  EXPECT_FALSE((*filled)[0].constant);
  const auto joined = Case{"Concat", {floats({{kHuge, ""}}), floats({{kHuge, ""}})}, {{"axis", 0}}}.infer();
  ASSERT_TRUE(joined);
  EXPECT_EQ(describe((*joined)[0].type), "f32 [?]");
}

TEST(InferNode, ComputesConstantsUpToTheLimit) {
  const Case sum{"Add", {list({1, 2, 3}), list({10, 20, 30})}, {}};
  const auto computed = sum.infer({.fold_elements = 3}), refused = sum.infer({.fold_elements = 2});
  ASSERT_TRUE(computed && refused);
  ASSERT_TRUE((*computed)[0].constant);
  EXPECT_EQ((*computed)[0].constant->data<int64_t>()[2], 33);
  EXPECT_FALSE((*refused)[0].constant);
  EXPECT_EQ(describe((*refused)[0].type), "i64 [3]");
}

TEST(InferNode, RandomNumbersAreNoConstants) {
  const auto drawn = Case{"RandomUniformLike", {list({1, 2})}, {{"dtype", 1}}}.infer();
  ASSERT_TRUE(drawn) << drawn.error().message();
  EXPECT_EQ(describe((*drawn)[0].type), "f32 [2]");
  EXPECT_FALSE((*drawn)[0].constant);
}

// Loops within loops, in a body each: every level that changes its state is looked at several times.
TEST(InferTypes, LoopsWithinLoopsEnd) {
  Graph inner;
  for (int depth = 0; depth < 40; ++depth) {
    Graph body;
    body.inputs = {{"i", {}}, {"c", {}}, {"s", {}}};
    body.outputs = {{"c", {}}, {"t", {}}};
    Node node;
    node.op = depth == 0 ? "Concat" : "Loop";
    node.inputs = depth == 0 ? std::vector<std::string>{"s", "s"} : std::vector<std::string>{"", "", "s"};
    node.outputs = {"t"};
    if (depth == 0) {
      node.attributes["axis"].integer = 0;
    } else {
      Attribute& attribute = node.attributes["body"];
      attribute.kind = Attribute::Kind::graph;
      attribute.graphs = {std::make_shared<const Graph>(inner)};
    }
    body.nodes = {node};
    inner = body;
  }
  Model model;
  model.opsets = {{"", kOpset}};
  model.graph = inner;
  model.graph.inputs = {{"c", typed(DType::boolean, {}).type}, {"s", floats({{2, ""}}).type}};
  const auto facts = infer_types(model);
  if (facts) {
    EXPECT_EQ(describe(facts->at("t").type), "f32 [?]");
  } else {
    EXPECT_EQ(facts.error().code(), Code::resource_exhausted);
  }
}

}  // namespace
}  // namespace headrace::onnx
