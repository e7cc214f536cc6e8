#include "engine/step_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace headrace::engine {
namespace {

using runtime::StepField;
using runtime::StepPlan;
using ::testing::ElementsAre;

SequencePtr sequence(std::vector<int32_t> ids, int32_t slot, std::vector<std::vector<int32_t>> tables) {
  auto s = std::make_shared<Sequence>();
  s->ids = std::move(ids);
  s->slot = slot;
  s->block_tables = std::move(tables);
  s->state = SequenceState::running;
  return s;
}

// A decode whose token is in flight, a prefill chunk that ends its prompt, and one that does not. The expected arrays are
// written by hand from runtime/step_plan.h.
std::vector<ScheduledSequence> three_rows() {
  std::vector<int32_t> long_prompt(40);
  std::iota(long_prompt.begin(), long_prompt.end(), 500);
  const SequencePtr decode = sequence(std::vector<int32_t>(16, 3), 4, {{7, 9}, {8, 6}});
  decode->num_pending_tokens = 2;  // the token at 16 is sampled but unknown; the one at 17 is what this step samples
  decode->sampling = {.temperature = 0.5f, .top_p = 0.9f, .min_p = 0.1f, .top_k = 20, .seed = 0xfedcba9876543210u};
  decode->rank.choice = 2;
  const SequencePtr ending = sequence({70, 71, 72}, 0, {{1}, {2}});
  ending->sampling.temperature = 0;
  const SequencePtr middle = sequence(long_prompt, 1, {{3, 4, 5}, {10, 11, 12}});
  return {{decode, 0, 16, 1, true}, {ending, 0, 1, 2, true}, {middle, 0, 15, 2, false}};
}

TEST(StepBuilder, WritesEveryFieldOfThePlan) {
  StepPlan plan;
  build_step(42, three_rows(), 2, plan);
  EXPECT_TRUE(StepPlan::valid(plan.block()));
  EXPECT_EQ(plan.header().step, 42u);
  EXPECT_EQ(plan.header().flags, 0u);
  EXPECT_EQ(plan.header().counts, (runtime::StepCounts{.tokens = 5, .seqs = 3, .logit_rows = 2, .groups = 2, .blocks = 2}));
  EXPECT_THAT(plan.ints(StepField::token_src), ElementsAre(-5, 71, 72, 515, 516));
  EXPECT_THAT(plan.ints(StepField::positions), ElementsAre(16, 1, 2, 15, 16));
  EXPECT_THAT(plan.ints(StepField::query_start), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(plan.ints(StepField::context_len), ElementsAre(17, 3, 17));
  EXPECT_THAT(plan.ints(StepField::logit_rows), ElementsAre(0, 2));
  EXPECT_THAT(plan.ints(StepField::sample_slot), ElementsAre(4, 0));
  EXPECT_THAT(plan.floats(StepField::temperature), ElementsAre(0.5f, 0.0f));
  EXPECT_THAT(plan.floats(StepField::top_p), ElementsAre(0.9f, 1.0f));
  EXPECT_THAT(plan.floats(StepField::min_p), ElementsAre(0.1f, 0.0f));
  EXPECT_THAT(plan.ints(StepField::top_k), ElementsAre(20, 0));
  EXPECT_THAT(plan.ints(StepField::seed_lo), ElementsAre(0x76543210, 0));
  EXPECT_THAT(plan.ints(StepField::seed_hi), ElementsAre(-19088744, 0));  // 0xfedcba98
  EXPECT_THAT(plan.ints(StepField::stream), ElementsAre(2, 0));
  EXPECT_THAT(plan.ints(StepField::sample_pos), ElementsAre(17, 3));
  EXPECT_THAT(plan.kv_slots(0), ElementsAre(9 * 16, 17, 18, 3 * 16 + 15, 4 * 16));
  EXPECT_THAT(plan.kv_slots(1), ElementsAre(6 * 16, 33, 34, 10 * 16 + 15, 11 * 16));
  EXPECT_THAT(plan.ints(StepField::block_table), ElementsAre(7, 9, 1, 0, 3, 4, 8, 6, 2, 0, 10, 11));
}

TEST(StepBuilder, AReusedPlanHoldsNothingOfTheStepBefore) {
  const std::vector<ScheduledSequence> rows = three_rows();
  StepPlan reused, fresh;
  build_step(1, rows, 2, reused);
  const void* memory = reused.block().data();
  build_step(2, std::span(rows).subspan(1), 2, reused);
  EXPECT_EQ(reused.block().data(), memory);
  build_step(2, std::span(rows).subspan(1), 2, fresh);
  EXPECT_TRUE(std::ranges::equal(reused.block(), fresh.block()));
}

TEST(StepBuilder, LogitsAreAskedForWhenARowThatSamplesWantsThem) {
  std::vector<ScheduledSequence> rows = three_rows();
  StepPlan plan;
  rows[2].sequence->want_logits = true;
  build_step(1, rows, 2, plan);
  EXPECT_EQ(plan.header().flags, 0u);
  rows[1].sequence->want_logits = true;
  build_step(1, rows, 2, plan);
  EXPECT_EQ(plan.header().flags, uint32_t{runtime::kWantLogits});
}

}  // namespace
}  // namespace headrace::engine
