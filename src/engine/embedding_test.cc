// Golden values of the tiny checkpoints: transformers' BertModel in float64 (tools/golden/bert_tiny.py).
#include "engine/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>

#include "io/model_source.h"
#include "io/safetensors.h"
#include "runtime/local_runner.h"
#include "testing/engine_load.h"
#include "testing/golden.h"

namespace headrace::engine {
namespace {

using headrace::testing::CollectingSink;
using headrace::testing::FakeModel;
using headrace::testing::FakeRunner;
using ::testing::HasSubstr;

EngineConfig checked_config() {
  EngineConfig config;
  config.check_every_step = true;
  return config;
}
std::unique_ptr<Engine> make_engine(const FakeModel& model, EngineConfig config = checked_config()) {
  return std::make_unique<Engine>(std::make_unique<FakeRunner>(model), config, std::vector<int32_t>{});
}
Request make_request(std::vector<std::vector<int32_t>> inputs) {
  Request request;
  request.kind = RequestKind::embed;
  request.inputs = std::move(inputs);
  return request;
}
// Text i has (i * 37) % longest + 1 ids.
std::vector<std::vector<int32_t>> make_inputs(int count, int longest) {
  std::vector<std::vector<int32_t>> inputs(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j <= i * 37 % longest; ++j) inputs[i].push_back((i + j * 7) % 100);
  }
  return inputs;
}

// ---- the engine -------------------------------------------------------------------------------------------------

TEST(Embed, EveryInputHasItsVectorWhateverTheBatchAndTheDepth) {
  const auto inputs = make_inputs(70, 60);
  for (const int depth : {0, 1, 3}) {
    for (const int64_t budget : {16, 512}) {
      const FakeModel model{.max_context = 64, .max_tokens = 128, .depth = depth, .embedding_size = 5};
      EngineConfig config = checked_config();
      config.max_batched_tokens = budget;  // a text of 60 goes through all the same
      const auto engine = make_engine(model, config);
      const auto out = embed(*engine, inputs);
      ASSERT_TRUE(out.has_value()) << out.error().to_string();
      for (size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(out->vectors[i], model.embedding(inputs[i])) << i;
      EXPECT_EQ(engine->stats().kv_blocks_total, 0u);
      EXPECT_EQ(engine->stats().requests_finished, 1u);
    }
  }
}

TEST(Embed, RequestsOfSeveralThreadsShareTheModel) {
  const FakeModel model{.max_context = 64, .embedding_size = 5};
  const auto engine = make_engine(model);
  std::vector<std::future<void>> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.push_back(std::async(std::launch::async, [&, thread] {
      for (int round = 0; round < 10; ++round) {
        const auto inputs = make_inputs(1 + (thread + round) % 5, 30 + thread);
        const auto out = embed(*engine, inputs);
        ASSERT_TRUE(out.has_value());
        for (size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(out->vectors[i], model.embedding(inputs[i]));
      }
    }));
  }
  for (auto& thread : threads) thread.get();
}

TEST(Embed, AVectorThatIsNotFiniteFailsItsRequestAlone) {
  FakeModel model{.max_context = 64, .embedding_size = 5};
  model.not_finite = [](std::span<const int32_t> ids) { return ids[0] == 13; };
  const auto engine = make_engine(model);
  const auto bad = embed(*engine, {{1, 2}, {13}, {3}});
  ASSERT_FALSE(bad.has_value());
  EXPECT_THAT(bad.error().message(), HasSubstr("embedding of input 1 is not finite"));
  EXPECT_TRUE(embed(*engine, {{1, 2}, {3}}).has_value());
  EXPECT_EQ(engine->stats().requests_failed, 1u);
}

TEST(Embed, AFailedStepIsReported) {
  FakeModel model{.max_context = 64, .embedding_size = 5};
  model.on_wait = [](uint64_t step) { return step == 1 ? make_status(Code::internal, "device fault") : Status(); };
  const auto engine = make_engine(model);
  EXPECT_THAT(embed(*engine, {{1}}).error().message(), HasSubstr("device fault"));
  EXPECT_TRUE(embed(*engine, {{1}}).has_value());
}

TEST(Embed, WhatTheModelCannotTakeIsRefusedByName) {
  const auto refuses = [](Engine& engine, Request request) {
    const auto id = engine.submit(std::move(request), std::make_shared<CollectingSink>(1));
    return id ? std::string("accepted") : id.error().message();
  };
  const auto embedder = make_engine({.max_context = 8, .embedding_size = 5});
  EXPECT_EQ(refuses(*embedder, make_request({{1}, std::vector<int32_t>(9, 1)})),
            "input[1]: 9 tokens, the model takes 8: shorten the text");
  EXPECT_EQ(refuses(*embedder, make_request({})), "inputs: want 1 to 2048, got 0");
  EXPECT_EQ(refuses(*embedder, make_request({{1}, {}})), "input[1]: want at least one token, got none");
  EXPECT_EQ(refuses(*embedder, make_request({{1, 512}})), "input[0][1]: want a token id from 0 to 511, got 512");
  Request generate;
  generate.prompt = {1};
  EXPECT_EQ(refuses(*embedder, generate), "this model makes embeddings and generates no text");
  const auto decoder = make_engine({});
  EXPECT_EQ(refuses(*decoder, make_request({{1}})), "this model generates text and makes no embeddings");
}

// ---- a tiny model, through the runner and its kernels -----------------------------------------------------------

std::map<std::string, std::vector<float>> read_golden(const std::string& folder, const std::string& prefix) {
  std::map<std::string, std::vector<float>> out;
  const auto file = io::SafetensorsFile::open(folder + "/golden.safetensors");
  EXPECT_TRUE(file.has_value());
  for (const io::SafetensorsTensor& tensor : file->tensors()) {
    const auto bytes = file->data(tensor);
    if (!tensor.name.starts_with(prefix)) continue;
    std::vector<float>& values = out[tensor.name.substr(prefix.size())];
    values.resize(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return out;
}

// The tokens of a golden text, which lie there as i32.
std::vector<int32_t> ids_of(const std::vector<float>& bits) {
  std::vector<int32_t> ids(bits.size());
  std::memcpy(ids.data(), bits.data(), bits.size() * sizeof(float));
  return ids;
}

std::unique_ptr<Engine> open_tiny(const std::string& folder, DtypePolicy policy, Isa isa) {
  const auto source = io::ModelSource::open(folder);
  EXPECT_TRUE(source.has_value()) << source.error().to_string();
  runtime::RunnerOptions options;
  options.model_name = "tiny";
  options.policy = policy;
  options.isa = isa;
  options.max_tokens = 64;
  auto runner = runtime::LocalRunner::open(**source, std::make_shared<runtime::DeviceQueue>(2, 0), options);
  EXPECT_TRUE(runner.has_value()) << runner.error().to_string();
  return std::make_unique<Engine>(std::move(*runner), checked_config(), std::vector<int32_t>{});
}

class TinyBert : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Checkpoints, TinyBert, ::testing::Values("mean", "cls"),
                         [](const auto& row) { return std::string(row.param); });

TEST_P(TinyBert, EmbeddingsEqualTheReferenceAndDoNotDependOnTheBatch) {
  const std::string folder = testing::golden_path(std::string("bert_tiny/") + GetParam());
  const auto texts = read_golden(folder, "ids."), wanted = read_golden(folder, "embedding.");
  for (const Isa isa : {Isa::generic, detect_isa()}) {
    for (const bool exact : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {}", isa_name(isa), exact ? "exact" : "default"));
      const auto engine = open_tiny(folder, exact ? DtypePolicy::exact() : DtypePolicy(), isa);
      // Weights are bf16: where the machine multiplies it natively, the default rounds activations to its 8 bits.
      const double tolerance = exact ? 1e-4 : 1e-2;
      std::vector<std::vector<int32_t>> inputs;
      for (const auto& [index, bits] : texts) inputs.push_back(ids_of(bits));
      const auto together = embed(*engine, inputs);
      ASSERT_TRUE(together.has_value()) << together.error().to_string();
      for (size_t i = 0; i < inputs.size(); ++i) {
        const std::vector<float>& want = wanted.at(std::to_string(i));
        ASSERT_EQ(together->vectors[i].size(), want.size());
        for (size_t j = 0; j < want.size(); ++j) EXPECT_NEAR(together->vectors[i][j], want[j], tolerance) << i << " " << j;
        const auto alone = embed(*engine, {inputs[i]});
        ASSERT_TRUE(alone.has_value());
        EXPECT_EQ(alone->vectors[0], together->vectors[i]);
      }
    }
  }
}

// ---- texts and vectors ------------------------------------------------------------------------------------------

constexpr const char* kTokenizer = R"({
  "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "decoder": null,
  "added_tokens": [
    {"id": 0, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 1, "content": "[SEP]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
  "pre_tokenizer": {"type": "Whitespace"},
  "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 0]},
  "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "a": 3, "b": 4, "c": 5}}})";

TEST(EncodeTruncated, TheTextIsCutAndWhatTheTokenizerAddsStays) {
  const auto tokenizer = text::Tokenizer::from_tokenizer_json(kTokenizer);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  const auto cut = [&](std::string_view text, int32_t most) {
    const auto ids = encode_truncated(**tokenizer, text, most);
    EXPECT_TRUE(ids.has_value());
    return ids ? *ids : std::vector<int32_t>();
  };
  EXPECT_EQ(cut("a b c", 5), (std::vector<int32_t>{0, 3, 4, 5, 1}));
  EXPECT_EQ(cut("a b c", 4), (std::vector<int32_t>{0, 3, 4, 1}));
  EXPECT_EQ(cut("a b c", 2), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(cut("[CLS] [CLS] a b", 4), (std::vector<int32_t>{0, 0, 0, 1}));
  EXPECT_EQ(cut("", 2), (std::vector<int32_t>{0, 1}));
  EXPECT_THAT(encode_truncated(**tokenizer, "a", 1).error().message(), HasSubstr("adds 2 tokens"));
}

TEST(Shorten, KeepsTheFirstNumbersAtLengthOne) {
  std::vector<float> vector = {0.6f, 0.0f, 0.8f};
  shorten(vector, 3);
  EXPECT_EQ(vector, (std::vector<float>{0.6f, 0.0f, 0.8f}));
  vector = {3, 4, 12};
  shorten(vector, 2);
  EXPECT_EQ(vector, (std::vector<float>{0.6f, 0.8f}));
  vector = {0, 0, 1};
  shorten(vector, 2);
  EXPECT_EQ(vector, (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace headrace::engine
