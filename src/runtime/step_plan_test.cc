#include "runtime/step_plan.h"

#include <gtest/gtest.h>

namespace headrace::runtime {
namespace {

TEST(StepPlan, IsOneFlatBlockThatSurvivesACopy) {
  StepPlan plan;
  plan.reset(7, {.tokens = 5, .seqs = 2, .logit_rows = 2, .groups = 2, .blocks = 3});
  plan.ints(StepField::query_start)[1] = 4;
  plan.kv_slots(1)[4] = 99;
  plan.block_row(1, 1)[2] = 42;
  const std::vector<std::byte> copy(plan.block().begin(), plan.block().end());
  ASSERT_TRUE(StepPlan::valid(copy));
  const auto* header = reinterpret_cast<const StepHeader*>(copy.data());
  const auto* table = reinterpret_cast<const int32_t*>(copy.data() + header->offsets[int(StepField::block_table)]);
  EXPECT_EQ(table[(1 * 2 + 1) * 3 + 2], 42);
  EXPECT_EQ(plan.ints(StepField::kv_slot)[5 + 4], 99);
  for (const uint64_t offset : header->offsets) EXPECT_EQ(offset % 64, 0u);
}

TEST(StepPlan, ReuseClearsWhatTheLastStepWrote) {
  StepPlan plan;
  plan.reset(1, {.tokens = 64, .seqs = 4, .logit_rows = 4, .groups = 1, .blocks = 8});
  for (int32_t& x : plan.ints(StepField::block_table)) x = -5;
  plan.reset(2, {.tokens = 3, .seqs = 3, .logit_rows = 3, .groups = 1, .blocks = 8});
  for (const int32_t x : plan.ints(StepField::block_table)) EXPECT_EQ(x, 0);
}

TEST(StepPlan, ALogitRowOfAFreshPlanAsksForAnArgmaxAlone) {
  StepPlan plan;
  plan.reset(1, {.tokens = 3, .seqs = 1, .logit_rows = 2, .groups = 1, .blocks = 1});
  for (int row = 0; row < 2; ++row) {
    for (const StepField field : {StepField::sample_slot, StepField::target, StepField::num_logprobs}) EXPECT_EQ(plan.ints(field)[row], -1);
    for (const StepField field : {StepField::top_p, StepField::typical_p, StepField::repetition_penalty}) EXPECT_EQ(plan.floats(field)[row], 1.0f);
    EXPECT_EQ(plan.floats(StepField::temperature)[row], 0.0f);
  }
}

TEST(StepPlan, ABlockWithWrongOffsetsOrCountsIsRefused) {
  StepPlan plan;
  plan.reset(1, {.tokens = 4, .seqs = 1, .logit_rows = 1, .groups = 1, .blocks = 1});
  std::vector<std::byte> copy(plan.block().begin(), plan.block().end());
  auto* header = reinterpret_cast<StepHeader*>(copy.data());
  const StepHeader good = *header;
  header->offsets[3] += 64;
  EXPECT_FALSE(StepPlan::valid(copy));
  *header = good;
  header->counts.tokens = 1 << 30;
  EXPECT_FALSE(StepPlan::valid(copy));
  *header = good;
  header->counts.seqs = -1;
  EXPECT_FALSE(StepPlan::valid(copy));
  *header = good;
  EXPECT_TRUE(StepPlan::valid(copy));
  EXPECT_FALSE(StepPlan::valid(std::span(copy).first(copy.size() - 1)));
  EXPECT_FALSE(StepPlan::valid({}));
}

TEST(StepPlan, PadsWithTokensOfNoSequenceAndRowsThatAskForNothing) {
  StepPlan plan, padded;
  plan.reset(7, {.tokens = 3, .seqs = 2, .logit_rows = 2, .groups = 2, .blocks = 2, .biases = 1, .history = 2, .copies = 1}, kWantLogprobs);
  std::ranges::copy(std::vector{0, 1, 3}, plan.ints(StepField::query_start).begin());
  std::ranges::copy(std::vector{0, 1, 1}, plan.ints(StepField::bias_start).begin());
  std::ranges::copy(std::vector{0, 0, 2}, plan.ints(StepField::history_start).begin());
  for (int group = 0; group < 2; ++group) {
    for (int t = 0; t < 3; ++t) plan.kv_slots(group)[t] = 100 * group + t + 1;
    for (int s = 0; s < 2; ++s) std::ranges::copy(std::vector{10 * group + s, 5}, plan.block_row(group, s).begin());
  }
  plan.floats(StepField::temperature)[1] = 0.5f;
  padded.pad(plan, {.tokens = 8, .seqs = 4, .logit_rows = 4, .groups = 2, .blocks = 16, .biases = 4, .history = 4});
  EXPECT_TRUE(StepPlan::valid(padded.block()));
  EXPECT_EQ(padded.header().step, 7u);
  EXPECT_EQ(padded.header().flags, uint32_t{kWantLogprobs});
  EXPECT_EQ(padded.header().counts.copies, 0);
  const auto list = [&](StepField field) { return std::vector<int32_t>(padded.ints(field).begin(), padded.ints(field).end()); };
  EXPECT_EQ(list(StepField::query_start), (std::vector{0, 1, 3, 3, 3}));
  EXPECT_EQ(list(StepField::bias_start), (std::vector{0, 1, 1, 1, 1}));
  EXPECT_EQ(list(StepField::history_start), (std::vector{0, 0, 2, 2, 2}));
  EXPECT_EQ(list(StepField::sample_slot), (std::vector{-1, -1, -1, -1}));
  EXPECT_EQ(list(StepField::num_logprobs), (std::vector{-1, -1, -1, -1}));
  EXPECT_EQ(padded.floats(StepField::temperature)[1], 0.5f);
  for (int group = 0; group < 2; ++group) {
    EXPECT_EQ(padded.kv_slots(group)[2], 100 * group + 3);
    EXPECT_EQ(padded.kv_slots(group)[3], 0);
    EXPECT_EQ(padded.block_row(group, 1)[0], 10 * group + 1);
    EXPECT_EQ(padded.block_row(group, 1)[1], 5);
    EXPECT_EQ(padded.block_row(group, 1)[2], 0);
    EXPECT_EQ(padded.block_row(group, 3)[0], 0);
  }
}

}  // namespace
}  // namespace headrace::runtime
