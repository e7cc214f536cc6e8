#include "engine/block_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Each;
using ::testing::Gt;

std::vector<runtime::KvGroupInfo> groups(std::initializer_list<int32_t> num_blocks) {
  std::vector<runtime::KvGroupInfo> infos;
  for (const int32_t blocks : num_blocks) infos.push_back({{}, 1, blocks});
  return infos;
}
constexpr int32_t kAll = std::numeric_limits<int32_t>::max();

int64_t available(const BlockManager& blocks) { return blocks.num_blocks_total() - blocks.num_blocks_used() + blocks.num_blocks_cached(); }

SequencePtr sequence(int32_t num_tokens, int32_t first = 0) {
  auto s = std::make_shared<Sequence>();
  for (int32_t i = 0; i < num_tokens; ++i) s->ids.push_back(first + i);
  s->num_prompt_tokens = num_tokens;
  return s;
}
// Computed and committed in full.
SequencePtr finished_prefill(BlockManager& blocks, int32_t num_tokens, int32_t first = 0) {
  SequencePtr s = sequence(num_tokens, first);
  blocks.attach_prefix(*s, kAll);
  EXPECT_TRUE(blocks.grow(*s, num_tokens));
  s->num_computed_tokens = num_tokens;
  blocks.commit(*s, num_tokens);
  s->state = SequenceState::running;
  return s;
}
std::string integrity(const BlockManager& blocks, std::vector<SequencePtr> sequences) {
  return blocks.check(sequences).to_string();
}

TEST(BlockManager, HandsOutEveryBlockButBlockZero) {
  BlockManager blocks(groups({5}), 64);
  const SequencePtr s = sequence(1);
  blocks.attach_prefix(*s, kAll);
  EXPECT_EQ(KvCapacity(groups({5}), 64).tokens(), 64);
  EXPECT_TRUE(blocks.grow(*s, 64));
  EXPECT_THAT(s->block_tables[0], ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(available(blocks), 0);
  EXPECT_EQ(integrity(blocks, {s}), "ok");
  blocks.free(*s);
  EXPECT_EQ(available(blocks), 4);
  EXPECT_EQ(blocks.num_blocks_used(), 0);
}

TEST(BlockManager, AGrowthThatDoesNotFitChangesNothing) {
  BlockManager blocks(groups({5, 3}), 64);
  const SequencePtr s = sequence(1);
  blocks.attach_prefix(*s, kAll);
  EXPECT_EQ(KvCapacity(groups({5, 3}), 64).tokens(), 32);
  EXPECT_FALSE(blocks.grow(*s, 33)) << "the second group has two blocks";
  EXPECT_TRUE(s->block_tables[0].empty());
  EXPECT_EQ(blocks.num_blocks_used(), 0);
  EXPECT_TRUE(blocks.grow(*s, 32));
  EXPECT_EQ(blocks.num_blocks_used(), 4);
  EXPECT_EQ(integrity(blocks, {s}), "ok");
}

TEST(BlockManager, ASecondSequenceSharesTheFullBlocksOfItsPrefix) {
  BlockManager blocks(groups({20}), 64);
  const SequencePtr a = finished_prefill(blocks, 40);
  const SequencePtr b = sequence(40);
  blocks.attach_prefix(*b, kAll);
  EXPECT_EQ(b->num_computed_tokens, 32);
  EXPECT_EQ(b->block_tables[0][1], a->block_tables[0][1]);
  EXPECT_EQ(blocks.num_blocks_used(), 3);
  EXPECT_EQ(integrity(blocks, {a, b}), "ok");
  blocks.free(*a);
  EXPECT_EQ(integrity(blocks, {b}), "ok");
  EXPECT_EQ(blocks.num_blocks_cached(), 0) << "b still uses what it shares";
  blocks.free(*b);
  EXPECT_EQ(blocks.num_blocks_cached(), 2);
  blocks.clear_prefix_cache();
  EXPECT_EQ(blocks.num_blocks_used(), 0);
}

TEST(BlockManager, ATokenIsAlwaysLeftToCompute) {
  BlockManager blocks(groups({20}), 64);
  blocks.free(*finished_prefill(blocks, 32));
  const SequencePtr same = sequence(32);
  blocks.attach_prefix(*same, kAll);
  EXPECT_EQ(same->num_computed_tokens, 16);
}

TEST(BlockManager, TwoThatComputeTheSameBlockEndUpWithOne) {
  BlockManager blocks(groups({20}), 64);
  const SequencePtr a = sequence(40), b = sequence(40);
  for (const SequencePtr& s : {a, b}) {
    blocks.attach_prefix(*s, kAll);
    ASSERT_TRUE(blocks.grow(*s, 40));
  }
  EXPECT_EQ(blocks.num_blocks_used(), 6);
  blocks.commit(*a, 40);
  blocks.commit(*b, 40);
  EXPECT_EQ(blocks.num_blocks_used(), 4);
  EXPECT_EQ(a->block_tables[0][0], b->block_tables[0][0]);
  EXPECT_NE(a->block_tables[0][2], b->block_tables[0][2]) << "blocks that are not full stay private";
  EXPECT_EQ(integrity(blocks, {a, b}), "ok");
}

TEST(BlockManager, IdlePrefixesMakeRoomTheOldestFirst) {
  BlockManager blocks(groups({7}), 64);
  blocks.free(*finished_prefill(blocks, 32, 0));
  blocks.free(*finished_prefill(blocks, 32, 1000));
  EXPECT_EQ(blocks.num_blocks_cached(), 4);
  EXPECT_EQ(available(blocks), 6);
  const SequencePtr big = sequence(64, 5000);
  blocks.attach_prefix(*big, kAll);
  ASSERT_TRUE(blocks.grow(*big, 64));
  EXPECT_THAT(big->block_tables[0], Each(Gt(0)));
  EXPECT_EQ(integrity(blocks, {big}), "ok");
  const SequencePtr old = sequence(40, 0), young = sequence(40, 1000);
  blocks.attach_prefix(*old, kAll);
  blocks.attach_prefix(*young, kAll);
  EXPECT_EQ(old->num_computed_tokens, 0);
  EXPECT_EQ(young->num_computed_tokens, 32);
}

TEST(BlockManager, TheIntegrityCheckSeesALostAndASharedWritableBlock) {
  BlockManager blocks(groups({20}), 64);
  const SequencePtr a = finished_prefill(blocks, 40), b = finished_prefill(blocks, 40, 1000);
  const int32_t kept = b->block_tables[0][2];
  b->block_tables[0][2] = a->block_tables[0][2];
  EXPECT_NE(integrity(blocks, {a, b}), "ok");
  b->block_tables[0].pop_back();
  EXPECT_NE(integrity(blocks, {a, b}), "ok");
  b->block_tables[0].push_back(kept);
  EXPECT_EQ(integrity(blocks, {a, b}), "ok");
  EXPECT_NE(integrity(blocks, {a}), "ok");
}

// A full group and one with a window.
std::vector<runtime::KvGroupInfo> with_window(int32_t num_blocks, int32_t window, int32_t window_blocks) {
  return {{{}, 1, num_blocks}, {{.window = window}, 1, window_blocks}};
}

TEST(BlockManager, BlocksBehindTheWindowAreGivenUpAndStayInTheCache) {
  BlockManager blocks(with_window(20, 20, 20), 64);
  const SequencePtr s = finished_prefill(blocks, 70);
  // The next token, at 70, sees keys from 51 on: blocks 0, 1 and 2 end at 47.
  EXPECT_THAT(s->block_tables[0], Each(Gt(0)));
  EXPECT_THAT(s->block_tables[1], ElementsAre(0, 0, 0, Gt(0), Gt(0)));
  EXPECT_EQ(integrity(blocks, {s}), "ok");
  EXPECT_EQ(blocks.num_blocks_cached(), 3);
  const BlockManager::Use use = blocks.use_of(*s);
  EXPECT_EQ(use.live_tokens, 70 + (70 - 48));
  EXPECT_EQ(use.slots, 80 + 32);
  blocks.free(*s);
  EXPECT_EQ(blocks.num_blocks_used(), blocks.num_blocks_cached());
  EXPECT_EQ(blocks.num_blocks_cached(), 8);
  blocks.clear_prefix_cache();
  EXPECT_EQ(blocks.num_blocks_used(), 0);
}

TEST(BlockManager, APrefixIsReusedAsFarAsItsWindowIsThere) {
  BlockManager blocks(with_window(40, 20, 8), 64);  // 7 blocks with a window
  const SequencePtr first = finished_prefill(blocks, 64);
  blocks.free(*first);
  // All four blocks are there.
  SequencePtr again = sequence(65);
  blocks.attach_prefix(*again, kAll);
  EXPECT_EQ(again->num_computed_tokens, 64);
  EXPECT_THAT(again->block_tables[1], ElementsAre(0, 0, Gt(0), Gt(0))) << "keys from 45 on";
  EXPECT_EQ(integrity(blocks, {again}), "ok");
  blocks.free(*again);
  // Another sequence takes the least recently used ones of the window's group away: 3 are free, it wants 5.
  const SequencePtr other = sequence(80, 1000);
  blocks.attach_prefix(*other, kAll);
  ASSERT_TRUE(blocks.grow(*other, 80));
  EXPECT_EQ(integrity(blocks, {other}), "ok");
  again = sequence(65);
  blocks.attach_prefix(*again, kAll);
  EXPECT_EQ(again->num_computed_tokens, 64) << "blocks 0 and 1 were used before 2 and 3";
  blocks.free(*again);
  // And one more: the window's beginning is gone, and with it all that can be reused.
  ASSERT_TRUE(blocks.grow(*other, 96));
  again = sequence(65);
  blocks.attach_prefix(*again, kAll);
  EXPECT_EQ(again->num_computed_tokens, 0);
  EXPECT_EQ(integrity(blocks, {other, again}), "ok");
}

TEST(BlockManager, AForkSharesFullBlocksAndCopiesTheRest) {
  BlockManager blocks(with_window(20, 30, 20), 64);
  const SequencePtr parent = finished_prefill(blocks, 40);
  const SequencePtr child = sequence(40);
  ASSERT_TRUE(blocks.fork(*parent, *child, 39));
  EXPECT_EQ(child->num_computed_tokens, 39);
  EXPECT_EQ(child->block_tables[0][1], parent->block_tables[0][1]);
  std::vector<BlockCopy> copies;
  blocks.take_copies(copies);
  ASSERT_EQ(copies.size(), 2u);
  for (const BlockCopy& copy : copies) {
    EXPECT_EQ(copy.from, parent->block_tables[copy.group][2]);
    EXPECT_EQ(copy.to, child->block_tables[copy.group][2]);
    EXPECT_NE(copy.from, copy.to);
  }
  blocks.take_copies(copies);
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(integrity(blocks, {parent, child}), "ok");
  // Nothing is left to copy at the border of a block.
  const SequencePtr even = sequence(40);
  ASSERT_TRUE(blocks.fork(*parent, *even, 32));
  EXPECT_EQ(even->block_tables[0].size(), 2u);
  // What the parent has left behind its window cannot be shared, and what it has not computed neither.
  const SequencePtr late = sequence(40);
  EXPECT_FALSE(blocks.fork(*parent, *late, 41));
  ASSERT_TRUE(blocks.grow(*parent, 120));
  for (int32_t id = 40; id < 120; ++id) parent->ids.push_back(id);
  parent->num_computed_tokens = 120;
  blocks.commit(*parent, 120);
  EXPECT_FALSE(blocks.fork(*parent, *late, 39));
  EXPECT_EQ(integrity(blocks, {parent, child, even}), "ok");
}

TEST(BlockManager, SaysHowManySequencesFit) {
  const KvCapacity blocks(groups({11}), 64);
  EXPECT_TRUE(blocks.can_hold(1, 160, 0));
  EXPECT_FALSE(blocks.can_hold(1, 161, 0));
  // Two of 6 blocks that share 3 take 3 + 2 * 3 and one to spare.
  EXPECT_TRUE(blocks.can_hold(2, 96, 48));
  EXPECT_FALSE(blocks.can_hold(2, 97, 48));
  // Behind a window a sequence holds window and step at most: 20 + 64 tokens and a block that is cut.
  const KvCapacity windowed(with_window(1000, 20, 8), 64);
  EXPECT_EQ(windowed.tokens(), 999 * 16);
  const KvCapacity scarce(with_window(1000, 20, 7), 64);
  EXPECT_EQ(scarce.tokens(), 6 * 16);
}

TEST(BlockManager, NodesDoNotOutnumberBlocksWhereEveryGroupHasAWindow) {
  const runtime::KvGroupInfo group{{.window = 20}, 1, 12};
  BlockManager blocks(std::span(&group, 1), 64);
  for (int32_t i = 0; i < 50; ++i) {
    const SequencePtr s = finished_prefill(blocks, 64, 1000 * i);
    EXPECT_EQ(integrity(blocks, {s}), "ok");
    blocks.free(*s);
    EXPECT_LE(blocks.num_cached_prefixes(), 11);
  }
}

}  // namespace
}  // namespace headrace::engine
