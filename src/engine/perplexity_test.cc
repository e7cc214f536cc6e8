// Chunks and figures on a scorer that writes down what it is asked; Scorer on tiny checkpoints against transformers' logits
// (tests/golden/tiny_decoders). llama.cpp's figures for a real model stand in docs/benchmarks.md.
#include "engine/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/scorer.h"
#include "io/safetensors.h"
#include "testing/golden.h"

namespace headrace::engine {
namespace {

std::vector<int32_t> counting(int count) {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 100);
  return ids;
}

TEST(Perplexity, ChunksAreCutAndScoredAsLlamaPerplexityDoes) {
  std::vector<std::vector<int32_t>> asked;
  const ScoreText score = [&](std::span<const int32_t> ids, int64_t first) -> Result<std::vector<float>> {
    EXPECT_EQ(first, 4);
    asked.emplace_back(ids.begin(), ids.end());
    return std::vector<float>(ids.size() - 1 - first, -0.5f * float(asked.size()));
  };
  std::vector<double> heard;
  PerplexityOptions options{.context = 8, .bos_id = 7};
  options.progress = [&](const Perplexity& so_far, int64_t num_chunks) {
    EXPECT_EQ(num_chunks, 3);
    heard.push_back(so_far.mean_nll);
    return true;
  };
  const auto result = perplexity(counting(31), options, score);
  ASSERT_TRUE(result) << result.error().message();
  // Three chunks of 8, seven tokens dropped; BOS stands for the first of each.
  EXPECT_EQ(asked, (std::vector<std::vector<int32_t>>{{7, 101, 102, 103, 104, 105, 106, 107},
                                                      {7, 109, 110, 111, 112, 113, 114, 115},
                                                      {7, 117, 118, 119, 120, 121, 122, 123}}));
  EXPECT_EQ(result->chunks, 3);
  EXPECT_EQ(result->scored_tokens, 9);  // 8 - 4 - 1 a chunk
  EXPECT_EQ(heard, (std::vector<double>{0.5, 0.75, 1.0}));
  EXPECT_DOUBLE_EQ(result->value, std::exp(1.0));
  // Three each of 0.5, 1 and 1.5: a variance of 1/6.
  EXPECT_DOUBLE_EQ(result->standard_error, std::exp(1.0) * std::sqrt(1.0 / 6 / 8));
}

TEST(Perplexity, WithoutBosTheTextStaysWhole) {
  const auto result = perplexity(counting(16), {.context = 8}, [](std::span<const int32_t> ids, int64_t) -> Result<std::vector<float>> {
    EXPECT_TRUE(ids.front() == 100 || ids.front() == 108);
    return std::vector<float>{-1, -2, -3};
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(result->scored_tokens, 6);
}

TEST(Perplexity, ATextThatIsTooShortIsToldHowLongItMustBe) {
  const ScoreText never = [](std::span<const int32_t>, int64_t) -> Result<std::vector<float>> {
    ADD_FAILURE();
    return std::vector<float>();
  };
  const auto result = perplexity(counting(1023), {.context = 512}, never);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::invalid_argument);
  EXPECT_EQ(result.error().message(), "the text has 1023 tokens; want at least 1024, two chunks of the context 512");
}

TEST(Perplexity, ProgressThatSaysStopStops) {
  PerplexityOptions options{.context = 8};
  options.progress = [](const Perplexity&, int64_t) { return false; };
  const auto result = perplexity(counting(40), options, [](std::span<const int32_t>, int64_t) -> Result<std::vector<float>> {
    return std::vector<float>{-1, -2, -3};
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::cancelled);
}

struct Golden {
  std::vector<int32_t> ids;
  std::vector<float> logits;
};
Golden read_golden(const std::string& folder) {
  Golden golden;
  const auto file = io::SafetensorsFile::open(folder + "/golden.safetensors");
  EXPECT_TRUE(file);
  for (const io::SafetensorsTensor& tensor : file->tensors()) {
    const FormatInfo& info = format_info(tensor.format);
    std::vector<float> values(tensor.bytes / info.block_bytes);
    info.decode(file->data(tensor).data(), static_cast<int64_t>(values.size()), values.data());
    if (tensor.name == "ids.0") golden.ids.assign(values.begin(), values.end());
    if (tensor.name == "logits.0") golden.logits = std::move(values);
  }
  return golden;
}

TEST(Scorer, ScoresAreTheLogSoftmaxOfTransformersLogitsWhereverTheyBegin) {
  for (const char* name : {"tied", "gemma3"}) {
    const std::string folder = testing::golden_path(std::string("tiny_decoders/") + name);
    const Golden golden = read_golden(folder);
    ServingOptions options;
    options.exact = true;
    const auto scorer = Scorer::open(folder, options, 64);
    ASSERT_TRUE(scorer) << scorer.error().message();
    EXPECT_EQ((*scorer)->tokenizer().error().code(), Code::not_found);
    const auto all = (*scorer)->score(golden.ids, 0);
    ASSERT_TRUE(all) << all.error().message();
    ASSERT_EQ(all->size(), golden.ids.size() - 1);
    const size_t vocab = golden.logits.size() / golden.ids.size();
    for (size_t i = 0; i < all->size(); ++i) {
      const float* row = golden.logits.data() + i * vocab;
      double sum = 0;
      for (size_t j = 0; j < vocab; ++j) sum += std::exp(double{row[j]});
      EXPECT_NEAR((*all)[i], row[golden.ids[i + 1]] - std::log(sum), 1e-4) << name << " " << i;
    }
    // The same bits when the text is scored from its middle, and in a second call.
    const int64_t middle = static_cast<int64_t>(golden.ids.size()) / 2;
    const auto half = (*scorer)->score(golden.ids, middle);
    ASSERT_TRUE(half);
    EXPECT_EQ(*half, std::vector<float>(all->begin() + middle, all->end()));
    EXPECT_EQ((*scorer)->score(std::vector<int32_t>(65), 0).error().code(), Code::invalid_argument);
    EXPECT_TRUE((*scorer)->score(std::vector<int32_t>{1}, 0)->empty());
  }
}

TEST(Scorer, AnEmbedderIsRefused) {
  const auto scorer = Scorer::open(testing::golden_path("bert_tiny/cls"), {}, 16);
  ASSERT_FALSE(scorer);
  EXPECT_EQ(scorer.error().code(), Code::unsupported);
}

}  // namespace
}  // namespace headrace::engine
