// Static batching on tiny checkpoints: its greedy answers are those of the engine, and its figures those that follow from the
// lengths.
#include "engine/static_batch.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/engine_load.h"
#include "testing/golden.h"

namespace headrace::engine {
namespace {

ServingOptions some_options() {
  ServingOptions options;
  options.exact = true;
  options.config.threads = 1;
  options.config.max_batched_tokens = 16;
  options.config.max_context = 192;
  return options;
}

std::vector<StaticRequest> requests_of(std::vector<std::pair<int, int>> lengths, int vocab) {
  std::mt19937 random(5);
  std::vector<StaticRequest> out;
  for (const auto& [prompt, answer] : lengths) {
    out.push_back({std::vector<int32_t>(static_cast<size_t>(prompt)), answer});
    for (int32_t& id : out.back().prompt) id = static_cast<int32_t>(random() % static_cast<unsigned>(vocab));
  }
  return out;
}

class StaticBatches : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Checkpoints, StaticBatches, ::testing::Values("tied", "mistral_window", "gemma3"),
                         [](const auto& row) { return std::string(row.param); });

// Prompts longer than a window, than a step and than a block; answers of one token; a last group that is not full.
TEST_P(StaticBatches, GreedyAnswersAreThoseOfTheEngine) {
  const std::string folder = testing::golden_path(std::string("tiny_decoders/") + GetParam());
  auto batches = StaticBatch::open(folder, some_options(), 3, 160);
  ASSERT_TRUE(batches.has_value()) << batches.error().to_string();
  const auto requests = requests_of({{5, 9}, {70, 3}, {1, 20}, {33, 1}, {2, 90}, {64, 40}, {17, 12}}, (*batches)->vocab_size());
  std::vector<size_t> done;
  const auto answers = (*batches)->run(requests, [&done](size_t count) { return done.push_back(count), true; });
  ASSERT_TRUE(answers.has_value()) << answers.error().to_string();
  EXPECT_EQ(done, (std::vector<size_t>{3, 6, 7}));

  auto model = ServingModel::open(folder, some_options());
  ASSERT_TRUE(model.has_value()) << model.error().to_string();
  for (size_t i = 0; i < requests.size(); ++i) {
    Request request;
    request.prompt = requests[i].prompt;
    request.max_tokens = requests[i].max_tokens;
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    const auto sink = std::make_shared<testing::CollectingSink>();
    ASSERT_TRUE((*model)->engine().submit(request, sink).has_value());
    ASSERT_TRUE(sink->wait());
    EXPECT_EQ((*answers)[i].tokens, sink->tokens()) << i;
    EXPECT_EQ((*answers)[i].tokens.size(), static_cast<size_t>(requests[i].max_tokens));
  }
}

// By hand: one group of rows (prompt 2, answer 3) and (prompt 4, answer 1); 16 tokens a step are 8 columns.
TEST(StaticBatch, EveryPaddedTokenAndEveryRowOfEveryStepIsCounted) {
  auto batches = StaticBatch::open(testing::golden_path("tiny_decoders/tied"), some_options(), 2, 32);
  ASSERT_TRUE(batches.has_value()) << batches.error().to_string();
  const auto requests = requests_of({{2, 3}, {4, 1}}, (*batches)->vocab_size());
  ASSERT_TRUE((*batches)->run(requests).has_value());
  const StaticStats& stats = (*batches)->stats();
  EXPECT_EQ(stats.steps, 3u);  // 4 columns of prompts, two of answers
  EXPECT_EQ(stats.step_tokens, 4u * 2 + 2 + 2);
  EXPECT_EQ(stats.seq_steps, 3u * 2);
  EXPECT_EQ(stats.slots, 3u * 2 * (4 + 3));
  EXPECT_EQ(stats.live_tokens, (2u + 4) + 3 + 4);  // the second answer is whole after the first step
}

TEST(StaticBatch, WhatDoesNotFitIsRefused) {
  const std::string folder = testing::golden_path("tiny_decoders/tied");
  EXPECT_EQ(StaticBatch::open(folder, some_options(), 17, 32).error().code(), Code::invalid_argument);
  auto batches = StaticBatch::open(folder, some_options(), 2, 32);
  ASSERT_TRUE(batches.has_value());
  EXPECT_EQ((*batches)->run(requests_of({{20, 2}, {2, 20}}, 8)).error().code(), Code::invalid_argument);
  EXPECT_EQ((*batches)->run(requests_of({{2, 2}, {2, 2}, {2, 2}}, 8), [](size_t) { return false; }).error().code(),
            Code::cancelled);
  EXPECT_EQ(StaticBatch::open(testing::golden_path("bert_tiny/cls"), some_options(), 2, 16).error().code(), Code::unsupported);
}

}  // namespace
}  // namespace headrace::engine
