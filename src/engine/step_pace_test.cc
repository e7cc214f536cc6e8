#include "engine/step_pace.h"

#include <gtest/gtest.h>

namespace headrace::engine {
namespace {

// A device on which a step takes 4 ms and 0.2 ms a token.
double seconds_of(int32_t tokens) { return 0.004 + 0.0002 * tokens; }

// The chunk that is taken beside `decodes` once the pace is learnt, by running a prompt beside them.
int32_t settled_chunk(StepPace& pace, int32_t decodes) {
  int32_t chunk = 0;
  for (int step = 0; step < 60; ++step) {
    chunk = std::min(pace.prefill_budget(static_cast<size_t>(decodes)), 512);
    pace.note(decodes + chunk, seconds_of(decodes + chunk));
    if (step % 3 == 2) pace.note(decodes, seconds_of(decodes));  // now and then no prompt waits
  }
  return chunk;
}

TEST(StepPace, ChunksFillTheTargetAndNoMore) {
  StepPace pace(0.05);
  // 50 ms are 230 tokens, of which 8 decode.
  EXPECT_NEAR(settled_chunk(pace, 8), 222, 3);
  // More decodes leave less.
  EXPECT_NEAR(settled_chunk(pace, 100), 130, 3);
}

TEST(StepPace, ATargetThatDecodesAloneMissStillLetsPromptsAdvance) {
  StepPace pace(0.001);
  // 8 decodes take 5.6 ms: half as long again is 14 tokens, and the least is a block.
  EXPECT_EQ(settled_chunk(pace, 8), 16);
  StepPace slow(0.001);
  // 200 take 44 ms; 22 ms are 110 tokens.
  EXPECT_NEAR(settled_chunk(slow, 200), 110, 3);
}

TEST(StepPace, FollowsADeviceThatBecomesSlower) {
  StepPace pace(0.05);
  settled_chunk(pace, 8);
  int32_t chunk = 0;
  for (int step = 0; step < 100; ++step) {
    chunk = pace.prefill_budget(8);
    pace.note(8 + chunk, 2 * seconds_of(8 + chunk));
    if (step % 3 == 2) pace.note(8, 2 * seconds_of(8));
  }
  EXPECT_NEAR(chunk, (0.05 - 0.008) / 0.0004 - 8, 3);
}

TEST(StepPace, WithoutATargetNothingIsCut) {
  StepPace pace(0);
  EXPECT_EQ(pace.prefill_budget(10), std::numeric_limits<int32_t>::max());
  pace.note(100, 1.0);
  EXPECT_EQ(pace.prefill_budget(10), std::numeric_limits<int32_t>::max());
}

TEST(StepPace, GrowsFromStepsOfOneSize) {
  StepPace pace(0.05);
  for (int step = 0; step < 50; ++step) pace.note(8, seconds_of(8));
  // All 5.6 ms are taken for 8 tokens' cost: what then runs is more than a block and within the target.
  const int32_t first = pace.prefill_budget(8);
  EXPECT_GT(first, 16);
  EXPECT_LE(seconds_of(8 + first), 0.05);
  EXPECT_NEAR(settled_chunk(pace, 8), 222, 3);
}

}  // namespace
}  // namespace headrace::engine
