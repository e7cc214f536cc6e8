#include "engine/step_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
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
  StepBuilder().build(42, three_rows(), 2, {}, plan);
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
  StepBuilder builder;
  builder.build(1, rows, 2, {}, reused);
  const void* memory = reused.block().data();
  builder.build(2, std::span(rows).subspan(1), 2, {}, reused);
  EXPECT_EQ(reused.block().data(), memory);
  StepBuilder().build(2, std::span(rows).subspan(1), 2, {}, fresh);
  EXPECT_TRUE(std::ranges::equal(reused.block(), fresh.block()));
}

TEST(StepBuilder, RowsThatSampleCarryTheirBiasesPenaltiesAndLogprobs) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const SequencePtr plain = sequence({1, 2, 3}, 0, {{1}});
  // Prompt 10 11, answer 20 21 and one that is in flight.
  const SequencePtr rich = sequence({10, 11, 20, 21}, 5, {{2}});
  rich->num_prompt_tokens = 2;
  rich->num_pending_tokens = 2;
  rich->sampling.repetition_penalty = 1.5f;
  rich->sampling.frequency_penalty = 0.25f;
  rich->sampling.presence_penalty = -1.0f;
  rich->sampling.typical_p = 0.5f;
  rich->sampling.logit_bias = {{7, 2.5f}};
  rich->stop_ids = {98, 99};
  rich->min_tokens = 4;
  rich->num_logprobs = 3;
  StepPlan plan;
  StepBuilder().build(1, std::vector<ScheduledSequence>{{plain, 0, 2, 1, true}, {rich, 0, 4, 1, true}}, 1, {}, plan);
  EXPECT_TRUE(StepPlan::valid(plan.block()));
  EXPECT_EQ(plan.header().flags, uint32_t{runtime::kWantLogprobs});
  EXPECT_THAT(plan.ints(StepField::bias_start), ElementsAre(0, 0, 3));
  EXPECT_THAT(plan.ints(StepField::bias_token), ElementsAre(7, 98, 99));
  EXPECT_THAT(plan.floats(StepField::bias_value), ElementsAre(2.5f, kNever, kNever));
  EXPECT_THAT(plan.ints(StepField::history_start), ElementsAre(0, 0, 5));
  EXPECT_THAT(plan.ints(StepField::history), ElementsAre(10, 11, 20, 21, -6));
  EXPECT_THAT(plan.ints(StepField::output_start), ElementsAre(0, 2));
  EXPECT_THAT(plan.floats(StepField::repetition_penalty), ElementsAre(1.0f, 1.5f));
  EXPECT_THAT(plan.floats(StepField::frequency_penalty), ElementsAre(0.0f, 0.25f));
  EXPECT_THAT(plan.floats(StepField::presence_penalty), ElementsAre(0.0f, -1.0f));
  EXPECT_THAT(plan.floats(StepField::typical_p), ElementsAre(1.0f, 0.5f));
  EXPECT_THAT(plan.ints(StepField::target), ElementsAre(-1, -1));
  EXPECT_THAT(plan.ints(StepField::num_logprobs), ElementsAre(-1, 3));

  rich->min_tokens = 3;  // the token that is sampled now is the fourth
  StepBuilder().build(1, std::vector<ScheduledSequence>{{rich, 0, 4, 1, true}}, 1, {}, plan);
  EXPECT_THAT(plan.ints(StepField::bias_token), ElementsAre(7));
}

TEST(StepBuilder, ABadWordsLastIdIsBannedWhereTheOthersWereJustSaid) {
  const SequencePtr s = sequence({5, 6, 6, 7}, 0, {{1}});
  s->num_prompt_tokens = 2;
  s->sampling.bad_words = {{40}, {7, 41}, {6, 7, 42}, {6, 6, 7, 43}, {6, 44}, {5, 6, 6, 7, 45}};
  StepPlan plan;
  StepBuilder().build(1, std::vector<ScheduledSequence>{{s, 0, 3, 1, true}}, 1, {}, plan);
  EXPECT_THAT(plan.ints(StepField::bias_token), ElementsAre(40, 41, 42)) << "the prompt's ids are no part of a word";
}

TEST(StepBuilder, PromptTokensThatAreScoredHaveARowEachBeforeTheOneThatSamples) {
  const SequencePtr s = sequence({50, 51, 52, 53}, 3, {{1}});
  s->num_prompt_tokens = 4;
  s->num_prompt_logprobs = 2;
  s->num_logprobs = 0;
  s->sampling.temperature = 0.5f;
  StepPlan plan;
  StepBuilder().build(1, std::vector<ScheduledSequence>{{s, 0, 1, 3, true, 1, 2}}, 1, {}, plan);
  EXPECT_THAT(plan.ints(StepField::logit_rows), ElementsAre(0, 1, 2));
  EXPECT_THAT(plan.ints(StepField::target), ElementsAre(52, 53, -1));
  EXPECT_THAT(plan.ints(StepField::num_logprobs), ElementsAre(2, 2, 0));
  EXPECT_THAT(plan.ints(StepField::sample_slot), ElementsAre(-1, -1, 3));
  EXPECT_THAT(plan.ints(StepField::sample_pos), ElementsAre(2, 3, 4));
  EXPECT_THAT(plan.floats(StepField::temperature), ElementsAre(0.0f, 0.0f, 0.5f));
}

TEST(StepBuilder, CopiesOfBlocksAreListedInOrder) {
  const SequencePtr s = sequence({1}, 0, {{1}});
  StepPlan plan;
  StepBuilder().build(1, std::vector<ScheduledSequence>{{s, 0, 0, 1, true}}, 1, std::vector<BlockCopy>{{0, 4, 7}, {1, 2, 3}}, plan);
  EXPECT_THAT(plan.ints(StepField::copy_group), ElementsAre(0, 1));
  EXPECT_THAT(plan.ints(StepField::copy_src), ElementsAre(4, 2));
  EXPECT_THAT(plan.ints(StepField::copy_dst), ElementsAre(7, 3));
}

}  // namespace
}  // namespace headrace::engine
