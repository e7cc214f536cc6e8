#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/scheduler_simulation.h"

namespace headrace::engine {
namespace {

using ::testing::ElementsAre;

// A scheduler on `num_blocks` usable blocks; steps complete with token 1 at once.
class SchedulerTest : public ::testing::Test {
 protected:
  void start(int32_t num_blocks, SchedulerLimits limits) {
    const runtime::KvGroupInfo group{{}, 1, num_blocks + 1};
    blocks_ = std::make_unique<BlockManager>(std::span(&group, 1), 64);
    scheduler_ = std::make_unique<Scheduler>(*blocks_, limits);
  }
  // Prompts differ from their first token on unless `first` is given.
  SequencePtr add(int32_t prompt, int32_t max_tokens = 100, int32_t priority = 0, int32_t first = -1) {
    auto s = std::make_shared<Sequence>();
    s->rank = {.priority = priority, .request = ++arrivals_};
    for (int32_t i = 0; i < prompt; ++i) s->ids.push_back((first < 0 ? 1000 * static_cast<int32_t>(arrivals_) : first) + i);
    s->num_prompt_tokens = prompt;
    s->max_tokens = max_tokens;
    scheduler_->add(s);
    return s;
  }
  // "request:count" of each row; an asterisk where it samples.
  std::vector<std::string> step(int32_t prefill_budget = std::numeric_limits<int32_t>::max()) {
    const auto planned = scheduler_->schedule(prefill_budget);
    const std::vector<ScheduledSequence> rows(planned.begin(), planned.end());
    std::vector<std::string> texts;
    for (const ScheduledSequence& row : rows) {
      texts.push_back(fmt::format("{}:{}{}", row.sequence->rank.request, row.count, row.sample ? "*" : ""));
    }
    for (const ScheduledSequence& row : rows) {
      scheduler_->complete(row);
      if (row.sample) scheduler_->append(row.sequence, 1);
    }
    EXPECT_EQ(scheduler_->check().to_string(), "ok");
    return texts;
  }

  std::unique_ptr<BlockManager> blocks_;
  std::unique_ptr<Scheduler> scheduler_;
  uint64_t arrivals_ = 0;
};

TEST_F(SchedulerTest, DecodesGoFirstAndPromptsAreCutToWhatTheBudgetLeaves) {
  start(100, {.max_seqs = 8, .max_batched_tokens = 20});
  add(5);
  EXPECT_THAT(step(), ElementsAre("1:5*"));
  add(30);
  add(10);
  EXPECT_THAT(step(), ElementsAre("1:1*", "2:19"));
  EXPECT_THAT(step(), ElementsAre("1:1*", "2:11*", "3:8"));
  EXPECT_THAT(step(), ElementsAre("1:1*", "2:1*", "3:2*"));
}

TEST_F(SchedulerTest, NoMoreSequencesRunThanTheBudgetHasTokens) {
  start(100, {.max_seqs = 8, .max_batched_tokens = 2});
  for (int i = 0; i < 3; ++i) add(1, 3);
  EXPECT_THAT(step(), ElementsAre("1:1*", "2:1*"));
  EXPECT_THAT(step(), ElementsAre("1:1*", "2:1*"));
}

TEST_F(SchedulerTest, ABetterPriorityIsAdmittedFirst) {
  start(100, {.max_seqs = 1, .max_batched_tokens = 20});
  add(3, 100, 1);
  add(3, 100, 0);
  EXPECT_THAT(step(), ElementsAre("2:3*"));
}

TEST_F(SchedulerTest, ABetterPriorityTakesThePlaceOfAWorseOneAndOfNoOther) {
  start(100, {.max_seqs = 1, .max_batched_tokens = 20});
  const SequencePtr worse = add(3, 100, 1);
  step();
  add(3, 2, 0);
  add(3, 2, 0);
  EXPECT_THAT(step(), ElementsAre("2:3*"));
  EXPECT_EQ(worse->state, SequenceState::waiting);
  EXPECT_EQ(scheduler_->num_preemptions(), 1u);
  EXPECT_THAT(step(), ElementsAre("2:1*"));
}

TEST_F(SchedulerTest, WhenMemoryIsShortTheLastComerIsPreemptedAndComputedAgain) {
  start(4, {.max_seqs = 4, .max_batched_tokens = 64});
  const SequencePtr a = add(16), b = add(15);
  EXPECT_THAT(step(), ElementsAre("1:16*", "2:15*"));
  for (int i = 0; i < 16; ++i) EXPECT_THAT(step(), ElementsAre("1:1*", "2:1*"));
  EXPECT_EQ(blocks_->num_blocks_used() - blocks_->num_blocks_cached(), blocks_->num_blocks_total());
  EXPECT_THAT(step(), ElementsAre("1:1*")) << "token 32 of the first needs a third block";
  EXPECT_EQ(b->state, SequenceState::waiting);
  EXPECT_EQ(b->ids.size(), 32u);
  EXPECT_EQ(b->slot, -1);
  scheduler_->finish(a);
  EXPECT_THAT(step(), ElementsAre("2:16*")) << "its first block is still in the cache";
  EXPECT_EQ(b->ids.size(), 33u);
}

TEST_F(SchedulerTest, TheFirstNeverLosesItsMemoryToOneBehindIt) {
  start(5, {.max_seqs = 4, .max_batched_tokens = 64});
  const SequencePtr a = add(20, 40), b = add(20, 40);
  step();
  while (a->state == SequenceState::running && !a->fully_sampled()) {
    const int32_t before = a->num_tokens();
    step();
    EXPECT_EQ(a->num_tokens(), before + 1);
  }
  EXPECT_GE(scheduler_->num_preemptions(), 1u);
  EXPECT_EQ(b->state, SequenceState::waiting);
  EXPECT_GT(b->ids.size(), 20u);
  scheduler_->finish(a);
  const size_t known = b->ids.size();
  while (!b->fully_sampled()) ASSERT_FALSE(step().empty());
  EXPECT_GT(b->ids.size(), known);
}

TEST_F(SchedulerTest, NothingIsAdmittedPastTheFirstThatDoesNotFit) {
  start(6, {.max_seqs = 4, .max_batched_tokens = 200});
  const SequencePtr running = add(40, 2);
  step();
  add(80, 2);
  add(1, 2);
  EXPECT_THAT(step(), ElementsAre("1:1*"));
  scheduler_->finish(running);
  EXPECT_THAT(step(), ElementsAre("2:80*"));
}

TEST_F(SchedulerTest, BesideDecodesAPromptGetsNoMoreThanItsBudget) {
  start(100, {.max_seqs = 4, .max_batched_tokens = 64});
  add(5);
  EXPECT_THAT(step(), ElementsAre("1:5*"));
  add(100);
  EXPECT_THAT(step(20), ElementsAre("1:1*", "2:20"));
  EXPECT_THAT(step(16), ElementsAre("1:1*", "2:16"));
  EXPECT_THAT(step(), ElementsAre("1:1*", "2:63"));
  EXPECT_THAT(step(20), ElementsAre("1:1*", "2:1*"));
}

TEST_F(SchedulerTest, FurtherChoicesShareThePromptOfTheFirstAndComputeOnlyItsLastToken) {
  start(100, {.max_seqs = 4, .max_batched_tokens = 30});
  const SequencePtr leader = add(40);
  const auto second = std::make_shared<Sequence>(*leader);
  second->rank.choice = 1;
  second->leader = leader;
  scheduler_->add(second);
  EXPECT_THAT(step(), ElementsAre("1:30"));
  EXPECT_THAT(step(), ElementsAre("1:10*"));
  EXPECT_THAT(step(), ElementsAre("1:1*", "1:1*"));
  EXPECT_EQ(second->num_cached_tokens, 39);
  EXPECT_EQ(second->block_tables[0][1], leader->block_tables[0][1]);
  EXPECT_NE(second->block_tables[0][2], leader->block_tables[0][2]);
  std::vector<BlockCopy> copies;
  blocks_->take_copies(copies);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, leader->block_tables[0][2]);
  EXPECT_EQ(copies[0].to, second->block_tables[0][2]);
}

TEST_F(SchedulerTest, FurtherChoicesGoOnWithoutAFirstThatHasEnded) {
  start(100, {.max_seqs = 4, .max_batched_tokens = 30});
  const SequencePtr leader = add(40);
  const auto second = std::make_shared<Sequence>(*leader);
  second->rank.choice = 1;
  second->leader = leader;
  scheduler_->add(second);
  step();
  scheduler_->finish(leader);
  EXPECT_THAT(step(), ElementsAre("1:24*")) << "the block that the first committed is shared";
}

TEST_F(SchedulerTest, PlansFromCountsWhileResultsAreAwaited) {
  start(100, {.max_seqs = 4, .max_batched_tokens = 30});
  const SequencePtr s = add(4, 3);
  const ScheduledSequence first = scheduler_->schedule()[0];
  const ScheduledSequence second = scheduler_->schedule()[0];
  const ScheduledSequence third = scheduler_->schedule()[0];
  EXPECT_EQ(second.first, 4);
  EXPECT_EQ(third.first, 5);
  EXPECT_EQ(s->num_pending_tokens, 3);
  EXPECT_TRUE(scheduler_->schedule().empty()) << "all three tokens are planned";
  scheduler_->complete(first);
  scheduler_->append(first.sequence, 11);
  scheduler_->finish(s);  // it turned out to be the end
  EXPECT_FALSE(Scheduler::is_current(second));
  EXPECT_FALSE(Scheduler::is_current(third));
  EXPECT_EQ(scheduler_->check().to_string(), "ok");
}

// ---- Random loads

using headrace::testing::FakeModel;
using headrace::testing::SimulationOptions;
using headrace::testing::SimulationReport;
using headrace::testing::simulate_scheduler;

SimulationOptions small_pool(int depth) {
  SimulationOptions options;
  options.model.eos_id = 0;
  options.model.eos_one_in = 40;
  options.model.max_seqs = 8;
  options.model.num_blocks = {18};
  options.model.depth = depth;
  options.num_steps = 1500;
  return options;
}

TEST(SchedulerSimulation, TokensAreThoseOfARunAloneWhenMemoryIsShort) {
  for (const int depth : {0, 1, 2}) {
    SimulationOptions options = small_pool(depth);
    options.seed = static_cast<uint64_t>(depth);
    const SimulationReport report = simulate_scheduler(options);
    EXPECT_EQ(report.failure, "") << "depth " << depth;
    EXPECT_GT(report.finished, 100) << "depth " << depth;
    EXPECT_GT(report.preemptions, 10u) << "depth " << depth;
    EXPECT_GT(report.cached_tokens, 500) << "depth " << depth;
    EXPECT_GT(report.aborted, 3) << "depth " << depth;
  }
}

TEST(SchedulerSimulation, GroupsOfUnequalSizeAgree) {
  SimulationOptions options = small_pool(1);
  options.model.num_blocks = {30, 16, 22};
  const SimulationReport report = simulate_scheduler(options);
  EXPECT_EQ(report.failure, "");
  EXPECT_GT(report.preemptions, 10u);
}

// Groups whose windows are shorter than a block, than a chunk, and longer than most prompts; pools from ample to scarce.
TEST(SchedulerSimulation, BlocksBehindAWindowAreGivenUpAndNeverMissed) {
  for (const int depth : {0, 1, 2}) {
    for (const int32_t blocks : {14, 20, 60}) {
      SimulationOptions options = small_pool(depth);
      options.seed = static_cast<uint64_t>(blocks);
      options.model.num_blocks = {40, blocks, blocks};
      options.model.windows = {0, 5, 40};
      options.limits.max_batched_tokens = 48;
      const SimulationReport report = simulate_scheduler(options);
      EXPECT_EQ(report.failure, "") << "depth " << depth << ", " << blocks << " blocks";
      EXPECT_GT(report.finished, 100);
      EXPECT_GT(report.cached_tokens, 200);
    }
  }
}

TEST(SchedulerSimulation, HashCollisionsCostHitsOnly) {
  SimulationOptions options = small_pool(1);
  options.weak_hash = true;
  const SimulationReport report = simulate_scheduler(options);
  EXPECT_EQ(report.failure, "");
  EXPECT_GT(report.cached_tokens, 0);
}

TEST(SchedulerSimulation, TinyBudgetsAndSingleSlotsWork) {
  for (const SchedulerLimits limits : {SchedulerLimits{1, 1}, SchedulerLimits{8, 3}, SchedulerLimits{2, 17}}) {
    SimulationOptions options = small_pool(1);
    options.limits = limits;
    options.max_prompt = 40;
    options.arrivals_per_step = 0.02;
    const SimulationReport report = simulate_scheduler(options);
    EXPECT_EQ(report.failure, "") << limits.max_seqs << " sequences, " << limits.max_batched_tokens << " tokens";
    EXPECT_GT(report.finished, 10);
  }
}

}  // namespace
}  // namespace headrace::engine
