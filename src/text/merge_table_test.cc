#include "text/merge_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace headrace::text {
namespace {

TEST(MergeTable, FindsTheLastMergeOfEveryPairAndNoOther) {
  std::mt19937 random(3);
  for (const auto& [num_ids, num_merges] :
       {std::pair(1, 1), {2, 9}, {3, 1000}, {300, 200}, {5000, 20'000}, {1 << 22, 3000}}) {
    MergeTable table(num_merges, num_ids);
    std::map<std::pair<int32_t, int32_t>, uint32_t> want;
    const auto any_id = [&, n = num_ids] {
      return static_cast<int32_t>(random() % static_cast<uint32_t>(n));
    };
    for (int rank = 0; rank < num_merges; ++rank) {
      // Neighbours beside pairs that are far from each other, and pairs that come again.
      const int32_t left = rank % 3 == 0 ? rank % num_ids : any_id(),
                    right = rank % 2 == 0 ? num_ids - 1 : any_id();
      ASSERT_TRUE(table.insert(left, right, {static_cast<uint32_t>(rank), -rank}));
      want[{left, right}] = static_cast<uint32_t>(rank);
    }
    for (const auto& [pair, rank] : want) {
      const Merge got = table.find(pair.first, pair.second);
      EXPECT_EQ(got.rank, rank);
      EXPECT_EQ(got.id, -static_cast<int32_t>(rank));
    }
    for (int i = 0; i < 20'000; ++i) {
      const int32_t left = any_id(), right = any_id();
      if (want.contains({left, right})) continue;
      EXPECT_EQ(table.find(left, right).rank, kNoRank) << left << " " << right;
    }
  }
}

// A table for few merges has few slots: more pairs than that are as many that ask for one place.
TEST(MergeTable, RefusesPairsForWhichItHasNoPlace) {
  MergeTable table(8, 256);
  int32_t count = 0;
  while (count < 65536 && table.insert(count / 256, count % 256, {static_cast<uint32_t>(count % 8), count}))
    ++count;
  EXPECT_GE(count, 8);
  EXPECT_LT(count, 256);
  EXPECT_NE(table.find(0, 0).rank, kNoRank);
  EXPECT_EQ(table.find(255, 255).rank, kNoRank);
}

}  // namespace
}  // namespace headrace::text
