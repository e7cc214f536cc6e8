// Long random loads on the scheduler with all its parts: the short ones of scheduler_test.cc, many times over.
#include <gtest/gtest.h>

#include "testing/scheduler_simulation.h"

namespace headrace::testing {
namespace {

TEST(SchedulerSimulation, HoldsOverManySeedsPoolsBudgetsAndDepths) {
  int64_t steps = 0, preemptions = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.num_steps = 17'000;
    options.model.eos_id = 0;
    options.model.eos_one_in = seed % 2 == 0 ? 40 : 0;
    options.model.max_seqs = 12;
    options.model.depth = static_cast<int>(seed % 3);
    options.model.num_blocks = {static_cast<int32_t>(12 + seed * 3)};
    if (seed % 4 == 3) options.model.num_blocks.push_back(20);
    if (seed % 5 >= 3) {
      options.model.num_blocks = {40, static_cast<int32_t>(8 + seed), 30};
      options.model.windows = {0, static_cast<int32_t>(1 + seed), 33};
    }
    options.limits = {.max_seqs = static_cast<int32_t>(1 + seed % 12), .max_batched_tokens = static_cast<int32_t>(1 + seed * 5)};
    options.arrivals_per_step = 0.02 + 0.02 * static_cast<double>(seed % 8);
    options.weak_hash = seed % 10 == 9;
    const SimulationReport report = simulate_scheduler(options);
    ASSERT_EQ(report.failure, "");
    steps += report.steps;
    preemptions += static_cast<int64_t>(report.preemptions);
  }
  EXPECT_GT(steps, 1'000'000);
  EXPECT_GT(preemptions, 10'000);
}

}  // namespace
}  // namespace headrace::testing
