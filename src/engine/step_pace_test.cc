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
    chunk = std::min(pace.prefill_budget(), 512);
    pace.note(decodes, chunk, seconds_of(decodes + chunk));
    if (step % 3 == 2) pace.note(decodes, 0, seconds_of(decodes));  // now and then no prompt waits
  }
  return chunk;
}

TEST(StepPace, ChunksFillTheTargetAndNoMore) {
  StepPace pace(0.05);
  // 8 decodes take 5.6 ms, and 44.4 are 222 tokens, of which a part is kept back.
  EXPECT_NEAR(settled_chunk(pace, 8), 0.85 * 222, 3);
  // More decodes leave less.
  EXPECT_NEAR(settled_chunk(pace, 100), 0.85 * 130, 3);
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
  for (int step = 0; step < 20; ++step) {
    chunk = pace.prefill_budget();
    pace.note(8, chunk, 2 * seconds_of(8 + chunk));
    if (step % 3 == 2) pace.note(8, 0, 2 * seconds_of(8));
  }
  EXPECT_NEAR(chunk, 0.85 * (0.05 - 2 * seconds_of(8)) / 0.0004, 3);
}

// A long prompt's tokens become dearer as its context grows, and no step without it shows what the decodes cost.
TEST(StepPace, ChunksShrinkAsAPromptGrows) {
  StepPace pace(0.05);
  pace.note(4, 0, seconds_of(4));
  int32_t context = 0, late = 0;
  while (context < 7000) {
    const int32_t chunk = std::min(pace.prefill_budget(), 512);
    const double seconds = seconds_of(4) + chunk * (0.0002 + 2e-7 * context);
    pace.note(4, chunk, seconds);
    context += chunk;
    late += seconds > 0.055 ? 1 : 0;
  }
  EXPECT_LE(late, 1);
}

TEST(StepPace, WithoutATargetNothingIsCut) {
  StepPace pace(0);
  EXPECT_EQ(pace.prefill_budget(), std::numeric_limits<int32_t>::max());
  pace.note(0, 100, 1.0);
  EXPECT_EQ(pace.prefill_budget(), std::numeric_limits<int32_t>::max());
}

TEST(StepPace, StartsWithAChunkThatDisturbsNobody) {
  StepPace pace(0.05);
  for (int step = 0; step < 50; ++step) pace.note(8, 0, seconds_of(8));
  const int32_t first = pace.prefill_budget();
  EXPECT_GT(first, 16);
  EXPECT_LE(seconds_of(8 + first), 0.05);
  EXPECT_NEAR(settled_chunk(pace, 8), 0.85 * 222, 3);
}

}  // namespace
}  // namespace headrace::engine
