#include "load/statistics.h"

#include <gtest/gtest.h>

namespace headrace::load {
namespace {

// numpy 2.4.6: v = [((i*i*37) % 101) / 8 + i / 4 for i in range(41)]; np.mean(v), np.std(v), np.min(v), np.percentile(v, 50),
// 90, 99, np.max(v); and np.percentile([3, 1], q) for 0, 25, 50, 90, 99, 100.
TEST(Statistics, SummariesAreThoseOfNumpy) {
  std::vector<double> values;
  for (int i = 0; i < 41; ++i) values.push_back((i * i * 37) % 101 / 8.0 + i / 4.0);
  const Summary s = summarize(values);
  EXPECT_EQ(s.count, 41);
  EXPECT_DOUBLE_EQ(s.mean, 11.371951219512194);
  EXPECT_DOUBLE_EQ(s.std, 4.854238766029176);
  EXPECT_DOUBLE_EQ(s.min, 0.0);
  EXPECT_DOUBLE_EQ(s.p50, 11.75);
  EXPECT_DOUBLE_EQ(s.p90, 18.375);
  EXPECT_DOUBLE_EQ(s.p99, 21.250000000000004);
  EXPECT_DOUBLE_EQ(s.max, 22.0);
  const std::vector<std::pair<double, double>> of_two = {{0, 1}, {25, 1.5}, {50, 2}, {90, 2.8}, {99, 2.98}, {100, 3}};
  for (const auto& [percent, want] : of_two) EXPECT_DOUBLE_EQ(percentile({1, 3}, percent), want);
  EXPECT_EQ(summarize({}).count, 0);
  EXPECT_EQ(percentile({5}, 99), 5);
}

RequestRecord record(double start, double ttft, std::vector<float> gaps, int32_t tokens) {
  RequestRecord out;
  out.start_s = start;
  out.ttft_ms = ttft;
  out.e2e_ms = ttft;
  for (const float gap : gaps) out.e2e_ms += gap;
  out.itl_ms = std::move(gaps);
  out.prompt_tokens = 10;
  out.output_tokens = tokens;
  out.counted_by_server = true;
  return out;
}

// By hand: two answers of 3 and 1 tokens and a failure in 2 seconds.
TEST(Statistics, FiguresFollowTheirDefinitions) {
  LoadRun run;
  run.seconds = 2;
  run.records = {record(0, 100, {10, 30}, 3), record(0.5, 50, {}, 1), RequestRecord{}};
  run.records[2].failure = Failure::timeout;
  const Figures f = figures_of(run, {.ttft_ms = 60, .tpot_ms = 1});
  EXPECT_EQ(f.completed, 2);
  EXPECT_EQ(f.failed, 1);
  EXPECT_EQ(f.good, 1);  // the second: it has no token after the first
  EXPECT_DOUBLE_EQ(f.requests_per_s, 1);
  EXPECT_DOUBLE_EQ(f.goodput, 0.5);
  EXPECT_DOUBLE_EQ(f.good_share, 1.0 / 3);
  EXPECT_DOUBLE_EQ(f.output_tokens_per_s, 2);
  EXPECT_DOUBLE_EQ(f.total_tokens_per_s, 12);
  EXPECT_DOUBLE_EQ(f.ttft_ms.mean, 75);
  EXPECT_DOUBLE_EQ(f.tpot_ms.mean, 20);
  EXPECT_EQ(f.tpot_ms.count, 1);
  EXPECT_DOUBLE_EQ(f.itl_ms.p50, 20);
  EXPECT_DOUBLE_EQ(f.e2e_ms.max, 140);
  EXPECT_TRUE(f.counted_by_server);
}

TEST(Statistics, TpotCountsTheTokensOfUsageWhereAChunkCarriesSeveral) {
  EXPECT_DOUBLE_EQ(record(0, 10, {40}, 5).tpot_ms(), 10);
}

TEST(Statistics, EveryPartOfAGoalMustBeMet) {
  const RequestRecord r = record(0, 100, {10, 30}, 3);  // TPOT 20, E2E 140
  EXPECT_TRUE((Goal{.ttft_ms = 100, .tpot_ms = 20, .e2e_ms = 140}.met(r)));
  EXPECT_FALSE((Goal{.ttft_ms = 99, .tpot_ms = 20, .e2e_ms = 140}.met(r)));
  EXPECT_FALSE((Goal{.ttft_ms = 100, .tpot_ms = 19, .e2e_ms = 140}.met(r)));
  EXPECT_FALSE((Goal{.ttft_ms = 100, .tpot_ms = 20, .e2e_ms = 139}.met(r)));
  EXPECT_FALSE(Goal{}.any());
}

}  // namespace
}  // namespace headrace::load
