#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

namespace headrace::engine {
namespace {

constexpr int32_t kNone = PrefixCache::kNoNode;

std::array<int32_t, kKvBlockTokens> block(int32_t first) {
  std::array<int32_t, kKvBlockTokens> tokens;
  for (int32_t i = 0; i < kKvBlockTokens; ++i) tokens[i] = first + i;
  return tokens;
}
int32_t insert(PrefixCache& cache, int32_t parent, int32_t first, int32_t kv_block, std::string_view key = {}) {
  return cache.insert(parent, block(first), key, std::span(&kv_block, 1));
}
int32_t evict(PrefixCache& cache) {
  int32_t kv_block = -1;
  return cache.evict(std::span(&kv_block, 1)) ? kv_block : -1;
}

TEST(PrefixCache, FindsAChainByItsTokensAndParents) {
  PrefixCache cache(1);
  const int32_t a = insert(cache, kNone, 100, 1);
  const int32_t b = insert(cache, a, 200, 2);
  EXPECT_EQ(cache.find(kNone, block(100), {}), a);
  EXPECT_EQ(cache.find(a, block(200), {}), b);
  EXPECT_EQ(cache.blocks(b)[0], 2);
  EXPECT_EQ(cache.find(kNone, block(200), {}), kNone) << "the same tokens at another place are another prefix";
  EXPECT_EQ(cache.find(b, block(200), {}), kNone);
  EXPECT_EQ(cache.find(a, block(201), {}), kNone);
  EXPECT_TRUE(cache.check().ok());
}

TEST(PrefixCache, KeyBytesSeparateTenants) {
  PrefixCache cache(1);
  const int32_t a = insert(cache, kNone, 100, 1, "tenant a");
  EXPECT_EQ(cache.find(kNone, block(100), {}), kNone);
  EXPECT_EQ(cache.find(kNone, block(100), "tenant b"), kNone);
  EXPECT_EQ(cache.find(kNone, block(100), "tenant a"), a);
  const int32_t b = insert(cache, kNone, 100, 2, std::string_view("tenant\0a", 8));
  EXPECT_NE(b, kNone);
  EXPECT_EQ(cache.find(kNone, block(100), "tenant a"), a);
}

TEST(PrefixCache, AHashCollisionIsAMissAndNeverAWrongPrefix) {
  PrefixCache cache(1, [](uint64_t, PrefixCache::Tokens, std::string_view) -> uint64_t { return 42; });
  const int32_t a = insert(cache, kNone, 100, 1);
  ASSERT_NE(a, kNone);
  EXPECT_EQ(cache.find(kNone, block(101), {}), kNone);
  EXPECT_EQ(cache.find(a, block(100), {}), kNone) << "same tokens and hash, another parent";
  EXPECT_EQ(cache.find(kNone, block(100), "key"), kNone);
  EXPECT_EQ(insert(cache, kNone, 101, 2), kNone);
  EXPECT_EQ(cache.num_nodes(), 1);
  EXPECT_TRUE(cache.check().ok());
}

TEST(PrefixCache, EvictsTheLeastRecentlyUsedAndNeverWhatIsInUse) {
  PrefixCache cache(1);
  const int32_t a = insert(cache, kNone, 100, 1), b = insert(cache, kNone, 200, 2), c = insert(cache, kNone, 300, 3);
  EXPECT_EQ(evict(cache), -1) << "all are in use";
  cache.release(b);
  cache.release(a);
  cache.acquire(b);
  cache.release(b);
  EXPECT_EQ(cache.num_idle(), 2);
  EXPECT_EQ(evict(cache), 1) << "a was used before b";
  EXPECT_EQ(evict(cache), 2);
  EXPECT_EQ(evict(cache), -1);
  EXPECT_EQ(cache.find(kNone, block(100), {}), kNone);
  EXPECT_EQ(cache.find(kNone, block(300), {}), c);
  EXPECT_TRUE(cache.check().ok());
}

TEST(PrefixCache, AChildGoesBeforeItsParent) {
  PrefixCache cache(1);
  const int32_t a = insert(cache, kNone, 100, 1), b = insert(cache, a, 200, 2), c = insert(cache, a, 300, 3);
  cache.acquire(a);  // two sequences: a b and a c
  cache.release(b);
  cache.release(a);
  EXPECT_TRUE(cache.check().ok());
  cache.release(c);
  cache.release(a);
  EXPECT_TRUE(cache.check().ok());
  EXPECT_EQ(evict(cache), 2);
  EXPECT_EQ(evict(cache), 3);
  EXPECT_EQ(evict(cache), 1);
  EXPECT_EQ(cache.num_nodes(), 0);
}

TEST(PrefixCache, NodesAreUsedAgain) {
  PrefixCache cache(1);
  for (int32_t i = 0; i < 100; ++i) {
    const int32_t node = insert(cache, kNone, i, i + 1);
    EXPECT_EQ(node, 0);
    cache.release(node);
    EXPECT_EQ(evict(cache), i + 1);
  }
}

TEST(PrefixCache, TheHashDependsOnEveryTokenOnTheParentAndOnTheKey) {
  const auto tokens = block(0);
  const uint64_t hash = PrefixCache::chain_hash(1, tokens, {});
  EXPECT_NE(hash, PrefixCache::chain_hash(2, tokens, {}));
  EXPECT_NE(hash, PrefixCache::chain_hash(1, tokens, "k"));
  for (int i = 0; i < kKvBlockTokens; ++i) {
    auto other = tokens;
    other[i] ^= 1 << 20;
    EXPECT_NE(hash, PrefixCache::chain_hash(1, other, {})) << i;
  }
}

}  // namespace
}  // namespace headrace::engine
