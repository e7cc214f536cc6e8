// Whole models in small: residual and inverted residual networks, BERT, a text detector, a voice detector. What they must give is ONNX
// Runtime 1.31's (tests/golden/onnx_models, made by tools/golden/onnx_models.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/safetensors.h"
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

TEST(Models, AResidualNetworkGivesOnnxRuntimesLogits) { expect_golden_runs("resnet_tiny", 2); }
TEST(Models, AnInvertedResidualNetworkGivesOnnxRuntimesLogits) { expect_golden_runs("mobilenet_tiny", 2); }
TEST(Models, BertGivesOnnxRuntimesStatesOfPaddedTexts) { expect_golden_runs("bert_tiny", 2); }
TEST(Models, ATextDetectorGivesOnnxRuntimesMapOfTwoSizes) { expect_golden_runs("ocr_tiny", 2); }
TEST(Models, AVoiceDetectorGivesOnnxRuntimesStatesAtBothRates) { expect_golden_runs("vad_tiny", 6); }

}  // namespace
}  // namespace headrace::onnx
