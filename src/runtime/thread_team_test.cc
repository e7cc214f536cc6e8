#include "runtime/thread_team.h"

#include <gtest/gtest.h>

#include <numeric>

namespace headrace::runtime {
namespace {

TEST(ThreadTeam, EveryTileIsClaimedOnceAndBarriersPublishWrites) {
  for (const int size : {1, 2, 3, 5}) {
    ThreadTeam team(size);
    for (int round = 0; round < 200; ++round) {
      std::vector<int> claimed(97, 0), seen_after(size, 0);
      team.run([&](Team& self) {
        for (int64_t tile = self.claim(97); tile >= 0; tile = self.claim(97)) ++claimed[tile];
        self.barrier();
        seen_after[self.rank()] = std::accumulate(claimed.begin(), claimed.end(), 0);
        self.barrier();
        for (int64_t tile = self.claim(97); tile >= 0; tile = self.claim(97)) ++claimed[tile];
      });
      for (const int count : claimed) ASSERT_EQ(count, 2);
      for (const int sum : seen_after) ASSERT_EQ(sum, 97);
    }
  }
}

TEST(ThreadTeam, SharesCoverEverythingInWholeGrains) {
  TeamState state(3);
  for (const int64_t count : {0, 1, 15, 16, 17, 100, 768}) {
    int64_t next = 0;
    for (int rank = 0; rank < 3; ++rank) {
      const Team::Range range = Team(state, rank).share(count, 16);
      EXPECT_EQ(range.begin, next);
      EXPECT_TRUE(range.begin % 16 == 0 || range.begin == count);
      next = range.end;
    }
    EXPECT_EQ(next, count);
  }
}

}  // namespace
}  // namespace headrace::runtime
