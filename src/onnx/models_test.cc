// Whole models in small: residual and inverted residual networks, BERT, a text detector, a voice detector. What they must give is ONNX
// Runtime 1.31's (tests/golden/onnx_models, made by tools/golden/onnx_models.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/safetensors.h"
#include "onnx/optimize.h"
#include "onnx/session.h"
#include "testing/golden.h"

namespace headrace::onnx {
namespace {

using Values = std::map<std::string, Value>;
struct Run {
  Values inputs, wanted;
};

Tensor tensor_of(const io::SafetensorsFile& file, const io::SafetensorsTensor& entry) {
  Tensor tensor(entry.format == Format::i64 ? DType::i64 : DType::f32, entry.shape);
  EXPECT_EQ(tensor.bytes(), entry.bytes) << entry.name;
  std::memcpy(tensor.raw(), file.data(entry).data(), std::min(tensor.bytes(), entry.bytes));
  return tensor;
}

// "N.input.NAME" and "N.output.NAME" as runs by their number.
std::map<int, Run> read_runs(const std::string& path) {
  const auto file = io::SafetensorsFile::open(path);
  if (!file) {
    ADD_FAILURE() << file.error().message();
    return {};
  }
  std::map<int, Run> runs;
  for (const io::SafetensorsTensor& entry : file->tensors()) {
    const size_t kind = entry.name.find('.') + 1, name = entry.name.find('.', kind) + 1;
    Run& run = runs[std::stoi(entry.name)];
    (entry.name.substr(kind, name - kind) == "input." ? run.inputs : run.wanted)[entry.name.substr(name)] = tensor_of(*file, entry);
  }
  return runs;
}

// Within 1e-3 of each element and 1e-4 of the largest.
void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.dtype(), DType::f32);
  ASSERT_EQ(got.dims(), want.dims());
  float largest = 0;
  for (const float value : want.values<float>()) largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 0);
  for (int64_t i = 0; i < want.elements(); ++i) {
    const float wanted = want.data<float>()[i], bound = 1e-3f * std::abs(wanted) + 1e-4f * largest;
    ASSERT_NEAR(got.data<float>()[i], wanted, bound) << "element " << i;
  }
}

void expect_golden_runs(const std::string& name, size_t num_runs) {
  const auto session = Session::load(testing::golden_path("onnx_models/" + name + ".onnx"), {});
  ASSERT_TRUE(session) << session.error().message();
  const std::map<int, Run> runs = read_runs(testing::golden_path("onnx_models/" + name + ".safetensors"));
  ASSERT_EQ(runs.size(), num_runs);
  for (const auto& [number, run] : runs) {
    SCOPED_TRACE("run " + std::to_string(number));
    const auto outputs = session->run(run.inputs);
    ASSERT_TRUE(outputs) << outputs.error().message();
    ASSERT_EQ(run.wanted.size(), session->outputs().size());
    for (const auto& [output, want] : run.wanted) {
      SCOPED_TRACE(output);
      ASSERT_TRUE(outputs->contains(output));
      expect_near(*outputs->at(output).tensor(), *want.tensor());
    }
  }
}

// The model as `graph optimize` writes it for the size of one run. Its operators are run by their references.
Model expect_optimized(const std::string& name, int number, int64_t opset) {
  SCOPED_TRACE(fmt::format("run {}, opset {}", number, opset));
  const auto session = Session::load(testing::golden_path("onnx_models/" + name + ".onnx"), {});
  if (!session) {
    ADD_FAILURE() << session.error().message();
    return {};
  }
  const Run run = read_runs(testing::golden_path("onnx_models/" + name + ".safetensors")).at(number);
  OptimizeOptions options{.opset = opset};
  for (const ValueInfo& input : session->inputs()) {
    for (size_t axis = 0; axis < input.type.shape->size(); ++axis) {
      const Type::Dim& dim = (*input.type.shape)[axis];
      if (dim.value < 0) options.dims[dim.symbol] = run.inputs.at(input.name).tensor()->dims()[axis];
    }
  }
  auto model = optimize(*session, options);
  if (!model) {
    ADD_FAILURE() << model.error().message();
    return {};
  }
  const auto outputs = interpret(*model, run.inputs);
  if (!outputs) {
    ADD_FAILURE() << outputs.error().message();
    return {};
  }
  EXPECT_EQ(outputs->size(), run.wanted.size());
  for (const auto& [output, want] : run.wanted) {
    SCOPED_TRACE(output);
    expect_near(*outputs->at(output).tensor(), *want.tensor());
  }
  return *std::move(model);
}

int64_t count(const Model& model, std::string_view op) { return std::ranges::count(model.graph.nodes, op, &Node::op); }

TEST(Models, OptimizedNetworksOfImagesGiveTheSameWithoutATranspose) {
  for (const char* name : {"resnet_tiny", "mobilenet_tiny", "ocr_tiny"}) {
    SCOPED_TRACE(name);
    for (const int64_t opset : {int64_t{0}, int64_t{24}}) EXPECT_EQ(count(expect_optimized(name, 1, opset), "Transpose"), 0);
  }
}

TEST(Models, OptimizedBertGivesTheSame) {
  const Model old = expect_optimized("bert_tiny", 1, 0), recent = expect_optimized("bert_tiny", 0, 23);
  EXPECT_EQ(old.opsets.at(""), 21);
  EXPECT_LT(old.graph.nodes.size(), 257u / 2);
  EXPECT_EQ(count(recent, "Shape"), 0);
}

TEST(Models, AModelThatIsNoProgramIsNotOptimized) {
  const auto session = Session::load(testing::golden_path("onnx_models/vad_tiny.onnx"), {});
  ASSERT_TRUE(session) << session.error().message();
  const auto missing = optimize(*session, {.dims = {{"batch", 1}}});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("give it with --dim samples=N"), std::string::npos) << missing.error().message();
  const auto unknown = optimize(*session, {.dims = {{"batch", 1}, {"samples", 80}, {"width", 2}}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message(), "--dim width: no input has an open dim of that name");
  const auto graphs = optimize(*session, {.dims = {{"batch", 1}, {"samples", 80}}});
  ASSERT_FALSE(graphs);
  EXPECT_EQ(graphs.error().code(), Code::unsupported);
  EXPECT_NE(graphs.error().message().find("holds graphs"), std::string::npos) << graphs.error().message();
}

TEST(Models, AResidualNetworkGivesOnnxRuntimesLogits) { expect_golden_runs("resnet_tiny", 2); }
TEST(Models, AnInvertedResidualNetworkGivesOnnxRuntimesLogits) { expect_golden_runs("mobilenet_tiny", 2); }
TEST(Models, BertGivesOnnxRuntimesStatesOfPaddedTexts) { expect_golden_runs("bert_tiny", 2); }
TEST(Models, ATextDetectorGivesOnnxRuntimesMapOfTwoSizes) { expect_golden_runs("ocr_tiny", 2); }
TEST(Models, AVoiceDetectorGivesOnnxRuntimesStatesAtBothRates) { expect_golden_runs("vad_tiny", 6); }

}  // namespace
}  // namespace headrace::onnx
