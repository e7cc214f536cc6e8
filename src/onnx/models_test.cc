// Whole models in small: residual and inverted residual networks, BERT, a text detector, a voice detector, quantized ones. What they must
// give is ONNX Runtime 1.31's (tests/golden/onnx_models, made by tools/golden/onnx_models.py).
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

// Outputs of quantized models are whole quanta: within one of them.
void expect_within(const Tensor& got, const Tensor& want, float quantum) {
  ASSERT_EQ(got.dims(), want.dims());
  for (int64_t i = 0; i < want.elements(); ++i) {
    ASSERT_NEAR(got.data<float>()[i], want.data<float>()[i], 1.01f * quantum) << "element " << i;
  }
}

void expect_golden_runs(const std::string& name, size_t num_runs, float quantum = 0, const Session::Options& options = {}) {
  const auto session = Session::load(testing::golden_path("onnx_models/" + name + ".onnx"), options);
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
      const Tensor &got = *outputs->at(output).tensor(), &wanted = *want.tensor();
      quantum == 0 ? expect_near(got, wanted) : expect_within(got, wanted, quantum);
    }
  }
}

// The model as `graph optimize` writes it for the size of one run. Its operators are run by their references.
Model expect_optimized(const std::string& name, int number, int64_t opset, float quantum = 0) {
  SCOPED_TRACE(fmt::format("run {}, opset {}", number, opset));
  const auto session = Session::load(testing::golden_path("onnx_models/" + name + ".onnx"), {.compile = {.skip_passes = {"fuse_qdq"}}});
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
    const Tensor &got = *outputs->at(output).tensor(), &wanted = *want.tensor();
    quantum == 0 ? expect_near(got, wanted) : expect_within(got, wanted, quantum);
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

TEST(Models, OptimizedQuantizedNetworksStayQuantized) {
  const Model image = expect_optimized("qdq_image_tiny", 1, 0, 0.05f), mlp = expect_optimized("qdq_mlp_tiny", 1, 0, 0.04f);
  EXPECT_EQ(count(image, "QuantizeLinear"), 10);
  EXPECT_EQ(count(mlp, "QuantizeLinear"), 5);
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
  EXPECT_NE(graphs.error().message().find("depends on data"), std::string::npos) << graphs.error().message();
}

TEST(Models, AResidualNetworkGivesOnnxRuntimesLogits) { expect_golden_runs("resnet_tiny", 2); }
TEST(Models, AnInvertedResidualNetworkGivesOnnxRuntimesLogits) { expect_golden_runs("mobilenet_tiny", 2); }
TEST(Models, BertGivesOnnxRuntimesStatesOfPaddedTexts) { expect_golden_runs("bert_tiny", 2); }
TEST(Models, ATextDetectorGivesOnnxRuntimesMapOfTwoSizes) { expect_golden_runs("ocr_tiny", 2); }
// On 8-bit kernels, a library's and Headrace's own of each instruction set, and as the floats that the models are written in.
TEST(Models, QuantizedNetworksGiveOnnxRuntimesQuanta) {
  std::vector<Session::Options> ways(3);
  ways[1].compile.library_kernels = false;
  ways[2].compile.skip_passes = {"fuse_qdq"};
  for (const Isa isa : {Isa::generic, Isa::avx2}) {
    if (isa > detect_isa()) continue;
    ways.push_back(ways[1]);
    ways.back().compile.isa = isa;
  }
  for (const Session::Options& options : ways) {
    SCOPED_TRACE(fmt::format("way {}", &options - ways.data()));
    expect_golden_runs("qdq_image_tiny", 2, 0.05f, options);
    expect_golden_runs("qdq_mlp_tiny", 2, 0.04f, options);
  }
}

TEST(Models, QuantizedNetworksRunInEightBits) {
  const auto session = Session::load(testing::golden_path("onnx_models/qdq_image_tiny.onnx"), {});
  ASSERT_TRUE(session) << session.error().message();
  const auto run = read_runs(testing::golden_path("onnx_models/qdq_image_tiny.safetensors")).at(0);
  const Scope& scope = session->compiled()->scope();
  std::vector<Value> values(scope.names.size());
  values[static_cast<size_t>(scope.inputs[0])] = run.inputs.at("image");
  const auto plan = session->compiled()->section().plan_for(values);
  ASSERT_TRUE(plan) << plan.error().message();
  std::map<std::string_view, int> nodes;
  for (const headrace::Node& node : (*plan)->program->program->graph().nodes) ++nodes[node.op->name];
  EXPECT_EQ(nodes["conv_q8"], 5);
  EXPECT_EQ(nodes["gemm_q8"], 1);
  EXPECT_EQ(nodes["add_q8"], 1);
  EXPECT_EQ(nodes["conv"] + nodes["gemm"], 0);
  EXPECT_EQ(nodes["quantize_linear"], 2);    // of the image, and behind the mean
  EXPECT_EQ(nodes["dequantize_linear"], 2);  // before the mean, and of the logits
}

TEST(Models, AVoiceDetectorGivesOnnxRuntimesStatesAtBothRates) { expect_golden_runs("vad_tiny", 6); }

}  // namespace
}  // namespace headrace::onnx
