// The numbers of the real embedder, all-MiniLM-L6-v2, against sentence-transformers (tests/golden/minilm_embeddings.json
// names versions). HEADRACE_MINILM names the model's folder; without it the cache is looked at, and without that one skips.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/embedding.h"
#include "engine/serving_model.h"
#include "testing/golden.h"

namespace headrace::engine {
namespace {

std::string model_folder() {
  if (const char* named = std::getenv("HEADRACE_MINILM")) return named;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path root = cache != nullptr ? cache : std::string(home != nullptr ? home : "") + "/.cache";
  const std::filesystem::path folder = root / "headrace" / "minilm";
  return std::filesystem::exists(folder / "model.safetensors") ? folder.string() : "";
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * double{b[i]};
    aa += double{a[i]} * double{a[i]};
    bb += double{b[i]} * double{b[i]};
  }
  return dot / std::sqrt(aa * bb);
}

class Minilm : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const std::string folder = model_folder();
    if (folder.empty()) GTEST_SKIP() << "HEADRACE_MINILM names no folder, and the cache holds none";
    ServingOptions options;
    options.exact = GetParam();
    auto model = ServingModel::open(folder, options);
    ASSERT_TRUE(model.has_value()) << model.error().to_string();
    model_ = std::move(*model);
    std::ifstream file(testing::golden_path("minilm_embeddings.json"));
    golden_ = nlohmann::json::parse(file);
  }

  std::vector<std::vector<float>> embed_texts(const std::vector<std::string>& texts) {
    std::vector<std::vector<int32_t>> inputs;
    for (const std::string& text : texts) {
      auto ids = model_->encode_input(text);
      EXPECT_TRUE(ids.has_value());
      inputs.push_back(std::move(*ids));
    }
    auto out = embed(model_->engine(), std::move(inputs));
    EXPECT_TRUE(out.has_value());
    return std::move(out->vectors);
  }

  std::unique_ptr<ServingModel> model_;
  nlohmann::json golden_;
};
INSTANTIATE_TEST_SUITE_P(Policies, Minilm, ::testing::Bool(),
                         [](const auto& row) { return std::string(row.param ? "Exact" : "Default"); });

TEST_P(Minilm, SentencesHaveTheVectorsOfSentenceTransformers) {
  std::vector<std::string> texts;
  for (const auto& item : golden_["sentences"]) texts.push_back(item["text"]);
  const auto vectors = embed_texts(texts);
  double worst = 1;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<float> want = golden_["sentences"][i]["embedding"];
    ASSERT_EQ(vectors[i].size(), want.size());
    worst = std::min(worst, cosine(vectors[i], want));
    EXPECT_GT(cosine(vectors[i], want), 0.9999) << texts[i].substr(0, 60);
    // The goldens have six digits.
    for (size_t j = 0; j < want.size(); ++j) ASSERT_NEAR(vectors[i][j], want[j], 2e-5) << texts[i].substr(0, 60);
  }
  std::printf("worst cosine 1 - %.2e\n", 1 - worst);
}

TEST_P(Minilm, PassagesRankAsWithSentenceTransformers) {
  const std::vector<std::string> passages = golden_["passages"];
  const auto candidates = embed_texts(passages);
  for (const auto& item : golden_["retrieval"]) {
    const auto query = embed_texts({item["query"].get<std::string>()});
    std::vector<double> scores;
    for (const std::vector<float>& candidate : candidates) scores.push_back(cosine(query[0], candidate));
    std::vector<int> order(passages.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, std::greater(), [&](int index) { return scores[index]; });
    EXPECT_EQ(order, item["ranking"].get<std::vector<int>>()) << item["query"];
  }
}

TEST_P(Minilm, ALongTextIsCutAtTheModelsLengthWithItsLastTokenKept) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "water ";
  const auto ids = model_->encode_input(text);
  ASSERT_TRUE(ids.has_value());
  EXPECT_EQ(ids->size(), 256u);
  EXPECT_EQ(ids->front(), model_->tokenizer().token_id("[CLS]"));
  EXPECT_EQ(ids->back(), model_->tokenizer().token_id("[SEP]"));
}

}  // namespace
}  // namespace headrace::engine
