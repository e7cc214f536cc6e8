// Models that mean harm, or only stand at the edge: nothing to compute, windows beyond the image, tensors larger than memory, runs that
// fail. Compiled models must then do what the reference operators do, or be refused with the node and the reason. What the edges give
// follows from the operators' texts in the ONNX document.
#include <gtest/gtest.h>

#include "core/buffer.h"
#include "testing/onnx_compare.h"
#include "testing/onnx_ways.h"

namespace headrace::onnx {
namespace {

Attribute integer(int64_t value) { return {.kind = Attribute::Kind::integer, .integer = value}; }
Attribute integers(std::vector<int64_t> values) { return {.kind = Attribute::Kind::integers, .integers = std::move(values)}; }

Tensor ones(Dims dims) {
  Tensor tensor(DType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = 1;
  return tensor;
}

// y = node(x, constants...)
struct Case {
  std::string name;
  Node node;
  Dims x;
  std::vector<Tensor> constants;
  Dims y;  // its dims
  int64_t opset = 20;
};

Model model_of(const Case& c) {
  Model model;
  model.opsets[""] = c.opset;
  model.graph.inputs = {{"x", {}}};
  Node node = c.node;
  node.inputs = {"x"};
  for (size_t i = 0; i < c.constants.size(); ++i) {
    const std::string name = "c" + std::to_string(i);
    model.graph.initializers[name] = c.constants[i];
    node.inputs.push_back(name);
  }
  node.outputs = {"y"};
  model.graph.nodes = {node};
  model.graph.outputs = {{"y", {}}};
  return model;
}

std::vector<Case> edge_cases() {
  const auto i64 = [](std::vector<int64_t> values) { return Tensor::of<int64_t>({std::ssize(values)}, values); };
  std::vector<Case> cases = {
      {"window beyond the image", {.op = "Conv"}, {1, 3, 2, 2}, {ones({2, 3, 3, 3})}, {1, 2, 0, 0}},
      {"image of no batch", {.op = "Conv"}, {0, 3, 5, 5}, {ones({2, 3, 3, 3})}, {0, 2, 3, 3}},
      {"image of no height, padded",
       {.op = "Conv", .attributes = {{"pads", integers({2, 2, 2, 2})}}},
       {1, 3, 0, 5},
       {ones({2, 3, 3, 3})},
       {1, 2, 2, 7}},
      {"sound shorter than the window", {.op = "Conv"}, {1, 3, 2}, {ones({2, 3, 3})}, {1, 2, 0}},
      {"pool beyond the image", {.op = "MaxPool", .attributes = {{"kernel_shape", integers({3, 3})}}}, {1, 1, 2, 2}, {}, {1, 1, 0, 0}},
      {"pool of no batch", {.op = "AveragePool", .attributes = {{"kernel_shape", integers({2, 2})}}}, {0, 1, 3, 3}, {}, {0, 1, 2, 2}},
      {"averages of padding alone",
       {.op = "AveragePool", .attributes = {{"kernel_shape", integers({2, 2})}, {"pads", integers({3, 3, 3, 3})}}},
       {1, 1, 2, 2},
       {},
       {1, 1, 7, 7}},
      {"averages with taps on both sides",
       {.op = "AveragePool",
        .attributes = {{"kernel_shape", integers({1, 2})}, {"dilations", integers({1, 5})}, {"pads", integers({0, 3, 0, 3})}}},
       {1, 1, 1, 1},
       {},
       {1, 1, 1, 2},
       20},
      {"products of no terms", {.op = "MatMul"}, {2, 0}, {ones({0, 3})}, {2, 3}},
      {"products of no rows", {.op = "MatMul"}, {0, 2}, {ones({2, 3})}, {0, 3}},
      {"vectors of nothing", {.op = "MatMul"}, {0}, {ones({0})}, {}},
      {"affine product of no terms", {.op = "Gemm"}, {2, 0}, {ones({0, 3}), ones({3})}, {2, 3}},
      {"softmax over nothing", {.op = "Softmax", .attributes = {{"axis", integer(1)}}}, {2, 0, 3}, {}, {2, 0, 3}},
      {"old softmax over nothing", {.op = "Softmax", .attributes = {{"axis", integer(1)}}}, {2, 0, 3}, {}, {2, 0, 3}, 11},
      {"gather of nothing", {.op = "Gather"}, {0, 3}, {Tensor(DType::i64, {0, 2})}, {0, 2, 3}},
      {"concat with nothing", {.op = "Concat", .attributes = {{"axis", integer(0)}}}, {2, 3}, {ones({0, 3})}, {2, 3}},
      {"expand to nothing", {.op = "Expand"}, {1, 3}, {i64({0, 3})}, {0, 3}},
      {"tile to nothing", {.op = "Tile"}, {2, 3}, {i64({0, 2})}, {0, 6}},
      {"tile of nothing", {.op = "Tile"}, {0, 3}, {i64({2, 2})}, {0, 6}},
      {"clip to a least above the most", {.op = "Clip"}, {3}, {Tensor::scalar(2.0f), Tensor::scalar(-2.0f)}, {3}},
      {"pad below zero", {.op = "Pad"}, {4}, {i64({-1, -1})}, {2}},
      {"normalization of no channels",
       {.op = "BatchNormalization"},
       {1, 0, 3},
       {ones({0}), ones({0}), ones({0}), ones({0})},
       {1, 0, 3}},
      {"rows of nothing", {.op = "LayerNormalization"}, {0, 3}, {ones({3})}, {0, 3}},
      {"flattened nothing", {.op = "Flatten"}, {0, 4}, {}, {0, 4}},
      {"axes from the end", {.op = "Transpose", .attributes = {{"perm", integers({-1, 0, 1})}}}, {2, 3, 4}, {}, {4, 2, 3}},
      {"nine axes", {.op = "Relu"}, Dims(9, 1), {}, Dims(9, 1)},
      {"nine axes summed", {.op = "ReduceSum", .attributes = {{"keepdims", integer(0)}}}, Dims(9, 1), {}, {}},
  };
  for (const char* op :
       {"ReduceSum", "ReduceL1", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceLogSumExp", "ReduceL2", "ReduceSumSquare"}) {
    cases.push_back({std::string(op) + " over nothing", {.op = op}, {2, 0, 3}, {i64({1})}, {2, 1, 3}});
    cases.push_back({std::string(op) + " of a scalar", {.op = op}, {}, {}, {}});
  }
  return cases;
}

TEST(HostileModels, EdgesGiveWhatTheReferenceGives) {
  for (const Case& c : edge_cases()) {
    SCOPED_TRACE(c.name);
    const Model model = model_of(c);
    const std::map<std::string, Value> inputs = {{"x", ones(c.x)}};
    const auto want = testing::kOnnxWays[0].run(model, inputs);
    ASSERT_TRUE(want) << want.error().message();
    ASSERT_EQ(want->at("y").tensor()->dims(), c.y);
    for (const testing::OnnxWay& way : testing::kOnnxWays) {
      SCOPED_TRACE(way.name);
      const auto got = way.run(model, inputs);
      ASSERT_TRUE(got) << got.error().message();
      EXPECT_EQ(testing::onnx_difference(got->at("y"), want->at("y"), {}), "");
    }
  }
}

// An attribute or an input counts from the opset on that has it.
TEST(HostileModels, WhatTheOpsetDoesNotHaveIsNotRead) {
  const Tensor axis = Tensor::of<int64_t>({1}, {0});
  const Attribute crd{.kind = Attribute::Kind::text, .text = "CRD"};
  const Case cases[] = {
      {"axes as an attribute", {.op = "ReduceSum", .attributes = {{"axes", integers({0})}}}, {2, 3}, {}, {1, 1}, 13},
      {"axes as an attribute", {.op = "ReduceMax", .attributes = {{"axes", integers({0})}}}, {2, 3}, {}, {1, 1}, 18},
      {"axes as an input", {.op = "ReduceMax"}, {2, 3}, {axis}, {1, 1}, 13},
      {"bounds as inputs", {.op = "Clip"}, {3}, {Tensor::scalar(0.25f), Tensor::scalar(0.5f)}, {3}, 10},
      {"bounds as inputs of another type", {.op = "Clip"}, {3}, {Tensor::scalar(int64_t{1})}, {3}, 9},
      {"a third bound", {.op = "Clip"}, {3}, {Tensor::scalar(0.25f), Tensor::scalar(0.5f), Tensor::scalar(int64_t{1})}, {3}, 11},
      {"a scale next to 1",
       {.op = "Upsample", .attributes = {{"mode", {.kind = Attribute::Kind::text, .text = "linear"}}}},
       {1, 1, 4, 3},
       {Tensor::of<float>({4}, {1, 1.02f, 0.5f, 1.5f})},
       {1, 1, 2, 4},
       9},
      {"a mode", {.op = "SpaceToDepth", .attributes = {{"blocksize", integer(2)}, {"mode", crd}}}, {1, 2, 2, 4}, {}, {1, 8, 1, 2}, 19},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Tensor x(DType::f32, c.x);
    for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(i);
    const auto want = testing::kOnnxWays[0].run(model_of(c), {{"x", x}});
    ASSERT_TRUE(want) << want.error().message();
    ASSERT_EQ(want->at("y").tensor()->dims(), c.y);
    for (const testing::OnnxWay& way : testing::kOnnxWays) {
      SCOPED_TRACE(way.name);
      const auto got = way.run(model_of(c), {{"x", x}});
      ASSERT_TRUE(got) << got.error().message();
      EXPECT_EQ(testing::onnx_difference(got->at("y"), want->at("y"), {}), "");
    }
  }
}

// What ONNX refuses is refused compiled too, not computed by a rule that is wider.
TEST(HostileModels, WhatTheReferenceRefusesIsRefused) {
  const auto floats = [](Dims dims) { return ones(std::move(dims)); };
  const Case cases[] = {
      {"one scale for two channels", {.op = "BatchNormalization"}, {1, 2, 3}, {floats({1}), floats({1}), floats({1}), floats({1})}, {}},
      {"more scales than channels", {.op = "BatchNormalization"}, {1, 2, 3}, {floats({9}), floats({9}), floats({9}), floats({9})}, {}},
      {"an addend larger than the product", {.op = "Gemm"}, {1, 2}, {floats({2, 1}), floats({4, 4})}, {}},
      {"slopes larger than the input", {.op = "PRelu"}, {1}, {floats({5})}, {}},
      {"a bias of too few channels", {.op = "Conv"}, {1, 1, 3, 3}, {floats({2, 1, 2, 2}), floats({1})}, {}},
      {"index into nothing", {.op = "Gather"}, {0, 3}, {Tensor::of<int64_t>({1}, {0})}, {}},
      {"index into nothing without a width", {.op = "Gather"}, {0, 0}, {Tensor::of<int64_t>({1}, {0})}, {}},
  };
  for (const Case& c : cases) {
    for (const testing::OnnxWay& way : testing::kOnnxWays) {
      SCOPED_TRACE(c.name + ", " + std::string(way.name));
      const auto got = way.run(model_of(c), {{"x", ones(c.x)}});
      ASSERT_FALSE(got);
      EXPECT_NE(got.error().code(), Code::internal) << got.error().message();
      EXPECT_NE(got.error().message().find("node 0 (" + c.node.op), std::string::npos) << got.error().message();
    }
  }
}

TEST(HostileModels, AnOperatorOfTwoInputsIsRefusedWithOneOrThree) {
  for (const char* op : {"Add", "And", "BitShift", "BitwiseXor", "Div", "Equal", "Less", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub"}) {
    for (const size_t more : {0, 2}) {
      Case c{op, {.op = op}, {2}, std::vector<Tensor>(more, ones({2})), {}};
      if (c.node.op == "BitShift") c.node.attributes["direction"] = {.kind = Attribute::Kind::text, .text = "LEFT"};
      if (more == 2 && (c.node.op == "PRelu" || c.node.op == "Pow")) continue;  // what is more is not read
      for (const testing::OnnxWay& way : testing::kOnnxWays) {
        SCOPED_TRACE(c.name + ", " + std::string(way.name));
        const auto got = way.run(model_of(c), {{"x", ones(c.x)}});
        ASSERT_FALSE(got);
        EXPECT_EQ(got.error().code(), Code::malformed) << got.error().message();
      }
    }
  }
}

// y = Gather(x, index), the index an input.
Model lookup() {
  Model model;
  model.opsets[""] = 20;
  model.graph.inputs = {{"x", {}}, {"index", {}}};
  model.graph.nodes = {{.op = "Relu", .inputs = {"x"}, .outputs = {"r"}},
                       {.name = "emb", .op = "Gather", .inputs = {"r", "index"}, .outputs = {"y"}}};
  model.graph.outputs = {{"y", {}}};
  return model;
}

TEST(HostileModels, ARunThatFailsNamesTheNodeAndLeavesTheSessionAsItWas) {
  for (const testing::OnnxWay& way : testing::kOnnxWays) {
    SCOPED_TRACE(way.name);
    Session::Options options;
    options.reference = way.reference;
    if (!way.passes) options.compile.skip_passes = {"all"};
    const Session session = Session::make(lookup(), options).value();
    for (int round = 0; round < 3; ++round) {
      const auto bad = session.run({{"x", Tensor::of<float>({2}, {5, 6})}, {"index", Tensor::of<int64_t>({1}, {2})}});
      ASSERT_FALSE(bad);
      EXPECT_EQ(bad.error().code(), Code::invalid_argument);
      EXPECT_NE(bad.error().message().find("node 1 (Gather, \"emb\")"), std::string::npos) << bad.error().message();
      const auto good = session.run({{"x", Tensor::of<float>({2}, {5, 6})}, {"index", Tensor::of<int64_t>({1}, {-1})}});
      ASSERT_TRUE(good) << good.error().message();
      EXPECT_EQ(*good->at("y").tensor()->data<float>(), 6);
    }
  }
}

// y = ReduceSum(Expand(x, dims))
Model bomb(const std::vector<int64_t>& dims) {
  Model model;
  model.opsets[""] = 20;
  model.graph.inputs = {{"x", {}}};
  model.graph.initializers["dims"] = Tensor::of<int64_t>({std::ssize(dims)}, dims);
  model.graph.nodes = {{.name = "wide", .op = "Expand", .inputs = {"x", "dims"}, .outputs = {"e"}},
                       {.op = "ReduceSum", .inputs = {"e"}, .outputs = {"y"}}};
  model.graph.outputs = {{"y", {}}};
  return model;
}

TEST(HostileModels, TensorsBeyondTheLimitOrTheMachineAreRefused) {
  for (const testing::OnnxWay& way : testing::kOnnxWays) {
    SCOPED_TRACE(way.name);
    Session::Options options;
    options.reference = way.reference;
    if (!way.passes) options.compile.skip_passes = {"all"};
    options.limits.made_bytes = 1 << 20;
    const auto limited = Session::make(bomb({1 << 20}), options).value().run({{"x", ones({1})}});
    ASSERT_FALSE(limited);
    EXPECT_EQ(limited.error().code(), Code::resource_exhausted) << limited.error().message();

    options.limits = {};
    // 2^33 floats are 32 GiB.
    if (physical_memory() < uint64_t{1} << 35) {
      const auto unlimited = Session::make(bomb({int64_t{1} << 33}), options).value().run({{"x", ones({1})}});
      ASSERT_FALSE(unlimited);
      EXPECT_EQ(unlimited.error().code(), Code::resource_exhausted) << unlimited.error().message();
    }
    const auto beyond = Session::make(bomb({int64_t{1} << 31, int64_t{1} << 31}), options).value().run({{"x", ones({1})}});
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().code(), Code::resource_exhausted) << beyond.error().message();
  }
}

}  // namespace
}  // namespace headrace::onnx
