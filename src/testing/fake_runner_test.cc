// The fake must notice what it is there to notice: these tests give it plans that are wrong in one place.
#include "testing/fake_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::testing {
namespace {

using runtime::StepField;
using runtime::StepPlan;
using ::testing::HasSubstr;

constexpr std::array<int32_t, 3> kPrompt = {7, 8, 9};

// The prompt in block 2, one sampled row in slot 1.
StepPlan prompt_plan() {
  StepPlan plan;
  plan.reset(1, {.tokens = 3, .seqs = 1, .logit_rows = 1, .groups = 1, .blocks = 1});
  for (int t = 0; t < 3; ++t) {
    plan.ints(StepField::token_src)[t] = kPrompt[t];
    plan.ints(StepField::positions)[t] = t;
    plan.kv_slots(0)[t] = 2 * kKvBlockTokens + t;
  }
  plan.ints(StepField::query_start)[1] = 3;
  plan.ints(StepField::context_len)[0] = 3;
  plan.ints(StepField::logit_rows)[0] = 2;
  plan.ints(StepField::sample_slot)[0] = 1;
  plan.ints(StepField::sample_pos)[0] = 3;
  plan.block_row(0, 0)[0] = 2;
  return plan;
}

// The token after the prompt, in the same block; its id is what slot 1 sampled.
StepPlan next_plan(int32_t block, int32_t slot) {
  StepPlan plan;
  plan.reset(2, {.tokens = 1, .seqs = 1, .logit_rows = 1, .groups = 1, .blocks = 1});
  plan.ints(StepField::token_src)[0] = -(slot + 1);
  plan.ints(StepField::positions)[0] = 3;
  plan.kv_slots(0)[0] = 2 * kKvBlockTokens + 3;
  plan.ints(StepField::query_start)[1] = 1;
  plan.ints(StepField::context_len)[0] = 4;
  plan.ints(StepField::sample_slot)[0] = slot;
  plan.ints(StepField::sample_pos)[0] = 4;
  plan.block_row(0, 0)[0] = block;
  return plan;
}

int32_t run_one(FakeRunner& runner, const StepPlan& plan) {
  return runner.wait(runner.submit(plan).value()).value().tokens.at(0);
}

TEST(FakeRunner, GivesTheTokensOfItsModelThroughPagingAndSlots) {
  const FakeModel model;
  FakeRunner runner(model);
  const std::vector<int32_t> expected = model.answer(kPrompt, 2, {});
  EXPECT_EQ(run_one(runner, prompt_plan()), expected[0]);
  EXPECT_EQ(run_one(runner, next_plan(2, 1)), expected[1]);
}

TEST(FakeRunner, AWrongBlockTableOrSlotGivesAnotherToken) {
  const FakeModel model;
  const std::vector<int32_t> expected = model.answer(kPrompt, 2, {});
  FakeRunner wrong_block(model), wrong_slot(model);
  run_one(wrong_block, prompt_plan());
  EXPECT_NE(run_one(wrong_block, next_plan(3, 1)), expected[1]);
  run_one(wrong_slot, prompt_plan());
  EXPECT_NE(run_one(wrong_slot, next_plan(2, 0)), expected[1]);
}

TEST(FakeRunner, RefusesPlansThatBreakTheContract) {
  struct Row {
    const char* message;
    void (*spoil)(StepPlan&);
  };
  const Row rows[] = {
      {"position", [](StepPlan& p) { p.ints(StepField::positions)[1] = 2; }},
      {"kv_slot", [](StepPlan& p) { p.kv_slots(0)[0] = 3; }},
      {"written twice", [](StepPlan& p) { p.kv_slots(0)[0] = p.kv_slots(0)[1]; }},
      {"sample_pos", [](StepPlan& p) { p.ints(StepField::sample_pos)[0] = 2; }},
      {"token_src", [](StepPlan& p) { p.ints(StepField::token_src)[0] = 512; }},
      {"sample_slot", [](StepPlan& p) { p.ints(StepField::sample_slot)[0] = 16; }},
      {"block", [](StepPlan& p) { p.block_row(0, 0)[0] = 1025; }},
      {"query_start", [](StepPlan& p) { p.ints(StepField::query_start)[1] = 2; }},
      {"context", [](StepPlan& p) { p.ints(StepField::context_len)[0] = 17; }},
  };
  for (const Row& row : rows) {
    FakeRunner runner{FakeModel{}};
    StepPlan plan = prompt_plan();
    row.spoil(plan);
    const auto ticket = runner.submit(plan);
    ASSERT_FALSE(ticket.has_value()) << row.message;
    EXPECT_THAT(ticket.error().message(), HasSubstr(row.message));
  }
}

TEST(FakeRunner, SpeaksItsReplyAndEnds) {
  FakeModel model;
  model.reply = {5, 6, 5, 6, 7};
  model.eos_id = 0;
  EXPECT_EQ(model.answer(std::array<int32_t, 2>{1, 2}, 10, {}), model.reply);
}

TEST(FakeRunner, TemperatureSeedAndStreamDecideOnlyWhenSampling) {
  const FakeModel model;
  const auto greedy = model.answer(kPrompt, 8, {.seed = 1});
  EXPECT_EQ(greedy, model.answer(kPrompt, 8, {.seed = 2, .stream = 1}));
  const auto sampled = model.answer(kPrompt, 8, {.temperature = 1, .seed = 1});
  EXPECT_NE(sampled, model.answer(kPrompt, 8, {.temperature = 1, .seed = 2}));
  EXPECT_NE(sampled, model.answer(kPrompt, 8, {.temperature = 1, .seed = 1, .stream = 1}));
}

}  // namespace
}  // namespace headrace::testing
