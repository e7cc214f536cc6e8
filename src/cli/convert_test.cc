// `headrace convert` of whole checkpoints: what the file gives is compared with transformers' logits (tests/golden/tiny_decoders),
// or with the folder's own where a configuration is changed so that GGUF can say it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "io/gguf.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "runtime/local_runner.h"
#include "testing/golden.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using runtime::StepField;

// Logits after each of `ids`, one sequence in one step: [ids][vocab].
std::vector<float> logits_of(const std::string& path, std::span<const int32_t> ids) {
  const auto source = io::ModelSource::open(path);
  EXPECT_TRUE(source) << source.error().message();
  if (!source) return {};
  runtime::RunnerOptions options{.model_name = "test", .policy = DtypePolicy::exact(), .max_context = 64, .kv_tokens = 64};
  const auto runner = runtime::LocalRunner::open(**source, std::make_shared<runtime::DeviceQueue>(2, 0), options);
  EXPECT_TRUE(runner) << runner.error().message();
  if (!runner) return {};
  const auto count = static_cast<int32_t>(ids.size());
  const auto groups = static_cast<int32_t>((*runner)->limits().groups.size());
  runtime::StepPlan plan;
  plan.reset(1, {.tokens = count, .seqs = 1, .logit_rows = count, .groups = groups, .blocks = 1}, runtime::kWantLogits);
  for (int32_t i = 0; i < count; ++i) {
    plan.ints(StepField::token_src)[i] = ids[i];
    plan.ints(StepField::positions)[i] = plan.ints(StepField::logit_rows)[i] = i;
    for (int32_t group = 0; group < groups; ++group) plan.kv_slots(group)[i] = kKvBlockTokens + i;
  }
  plan.ints(StepField::query_start)[1] = plan.ints(StepField::context_len)[0] = count;
  for (int32_t group = 0; group < groups; ++group) plan.block_row(group, 0)[0] = 1;
  const auto ticket = (*runner)->submit(plan);
  EXPECT_TRUE(ticket) << ticket.error().message();
  return (*runner)->wait(*ticket)->logits;
}

std::vector<float> golden_tensor(const std::string& folder, std::string_view name) {
  const auto file = io::SafetensorsFile::open(testing::golden_path(folder + "/golden.safetensors"));
  EXPECT_TRUE(file);
  for (const io::SafetensorsTensor& tensor : file->tensors()) {
    if (tensor.name != name) continue;
    const FormatInfo& info = format_info(tensor.format);
    std::vector<float> values(tensor.bytes / info.block_bytes);
    info.decode(file->data(tensor).data(), static_cast<int64_t>(values.size()), values.data());
    return values;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance) {
  ASSERT_GT(got.size(), 0u);
  ASSERT_LE(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << i;
}

class Convert : public ::testing::Test {
 protected:
  Convert() : folder_(fs::path(::testing::TempDir()) / "headrace_convert_test") {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  ~Convert() override { fs::remove_all(folder_); }

  std::string out() const { return (folder_ / "out.gguf").string(); }
  // A copy of a golden checkpoint with some keys of its config.json set, or removed where they are null.
  std::string changed(const std::string& golden, const Json& keys) const {
    const fs::path copy = folder_ / "changed";
    fs::remove_all(copy);
    fs::copy(testing::golden_path(golden), copy);
    Json config = Json::parse(std::ifstream(copy / "config.json"));
    config.merge_patch(keys);
    std::ofstream(copy / "config.json") << config;
    return copy.string();
  }
  std::string refusal(const std::string& model, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {model, "--out", out(), "--threads", "2"});
    const Status status = convert_command(more);
    return status.ok() ? "" : status.message();
  }

  const fs::path folder_;
};

constexpr int kPrompt = 16;

TEST_F(Convert, AFolderRunsFromItsFileAsTransformersRunsIt) {
  for (const char* name : {"tied", "llama3_rope", "rope_linear", "rope_yarn", "qwen2", "qwen3"}) {
    SCOPED_TRACE(name);
    const std::string golden = std::string("tiny_decoders/") + name;
    ASSERT_EQ(refusal(testing::golden_path(golden), {"--force"}), "");
    const std::vector<float> ids = golden_tensor(golden, "ids.0");
    const std::vector<int32_t> prompt(ids.begin(), ids.begin() + kPrompt);
    expect_near(logits_of(out(), prompt), golden_tensor(golden, "logits.0"), 2e-3);
  }
}

TEST_F(Convert, AFolderWhoseConfigurationGgufCanSayRunsFromItsFileTheSame) {
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  const std::pair<const char*, Json> cases[] = {
      {"tiny_decoders/untied_biases", {{"hidden_act", "silu"}}},
      {"tiny_decoders/mistral_window", {{"sliding_window", nullptr}}},
      {"tiny_decoders/gemma3", {{"query_pre_attn_scalar", 32}, {"layer_types", nullptr}, {"sliding_window", 8}}}};
  for (const auto& [golden, keys] : cases) {
    SCOPED_TRACE(golden);
    const std::string folder = changed(golden, keys);
    ASSERT_EQ(refusal(folder, {"--force"}), "");
    expect_near(logits_of(out(), prompt), logits_of(folder, prompt), 1e-4);
  }
}

TEST_F(Convert, WhatGgufCannotSayIsRefusedAndLeavesNothing) {
  const std::pair<const char*, const char*> cases[] = {{"gemma3", "model.layers.0.self_attn: want attention"},
                                                       {"gemma3_softcaps", "operators"},
                                                       {"mistral_window", "window=7"},
                                                       {"qwen2_window", "window=8"},
                                                       {"untied_biases", "want unary gelu_tanh, it would run as unary silu"},
                                                       {"rope_dynamic", "rope_type \"dynamic\""},
                                                       {"rope_longrope", "rope_type \"longrope\""}};
  for (const auto& [name, want] : cases) {
    const std::string message = refusal(testing::golden_path(std::string("tiny_decoders/") + name));
    EXPECT_NE(message.find(want), std::string::npos) << name << ": " << message;
  }
  EXPECT_NE(refusal(testing::golden_path("bert_tiny/cls")).find("a bert model generates no text"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Convert, AGgufFileKeepsItsBytesAndTakesAnotherFormatOnRequest) {
  const std::string tiny = testing::golden_path("tiny_llama.gguf");
  ASSERT_EQ(refusal(tiny, {"--weights", "q8_0"}), "");
  const auto before = io::GgufFile::open(tiny), after = io::GgufFile::open(out());
  ASSERT_TRUE(before && after);
  for (const io::GgufEntry& entry : before->metadata()) {
    if (entry.key == "general.file_type") continue;
    EXPECT_NE(after->find(entry.key), nullptr) << entry.key;
  }
  EXPECT_EQ(after->find("general.quantization_version")->integer(), 2);
  for (const io::GgufTensor& tensor : after->tensors()) {
    EXPECT_TRUE(tensor.rank == 1 || tensor.format == Format::q8_0) << tensor.name;
    EXPECT_TRUE(tensor.name.starts_with("blk.") || tensor.name.starts_with("token_embd") || tensor.name.starts_with("output"))
        << tensor.name;
  }
  ASSERT_EQ(refusal(tiny, {"--force"}), "");
  const auto same = io::GgufFile::open(out());
  ASSERT_TRUE(same);
  for (size_t i = 0; i < same->tensors().size(); ++i) {
    EXPECT_EQ(same->tensors()[i].name, before->tensors()[i].name);
    EXPECT_TRUE(std::ranges::equal(same->data(same->tensors()[i]), before->data(before->tensors()[i])));
  }
}

TEST_F(Convert, TheOutputMustBeNamedAndNew) {
  const std::string tiny = testing::golden_path("tiny_llama.gguf");
  EXPECT_NE(convert_command({tiny}).message().find("--out: want the name"), std::string::npos);
  std::ofstream(out()) << "mine";
  EXPECT_NE(refusal(tiny).find("is there already; --force"), std::string::npos);
  EXPECT_EQ(*io::read_file(out()), "mine");
}

}  // namespace
}  // namespace headrace::cli
