// A thousand ragged requests and more on whole engines, over pools, budgets and depths.
#include <gtest/gtest.h>

#include "testing/engine_load.h"

namespace headrace::testing {
namespace {

TEST(EngineLoad, ThousandsOfRaggedRequestsGiveTheTokensOfRunsAlone) {
  uint64_t preemptions = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    LoadOptions options{.seed = seed, .requests = 500, .threads = 1 + static_cast<int32_t>(seed % 4)};
    options.model.depth = static_cast<int>(seed % 3);
    options.model.eos_id = 0;
    options.model.eos_one_in = 60;
    options.model.max_seqs = 16;
    options.model.num_blocks = {static_cast<int32_t>(10 + seed * 3)};
    if (seed % 4 == 3) {
      options.model.num_blocks = {40, static_cast<int32_t>(12 + seed)};
      options.model.windows = {0, static_cast<int32_t>(1 + seed * 2)};
    }
    options.config.max_seqs = static_cast<int64_t>(1 + seed % 16);
    options.config.max_batched_tokens = static_cast<int64_t>(16 + seed * 8);
    options.abort_chance = seed % 5 == 0 ? 0.0 : 0.15;
    const LoadReport report = run_engine_load(options);
    ASSERT_EQ(report.failure, "");
    ASSERT_EQ(report.stats.kv_blocks_used, report.stats.kv_blocks_cached);
    preemptions += report.stats.preemptions;
  }
  EXPECT_GT(preemptions, 50u);
}

}  // namespace
}  // namespace headrace::testing
