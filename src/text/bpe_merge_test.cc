#include "text/bpe_merge.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace headrace::text {
namespace {

using Table = std::map<std::pair<int32_t, int32_t>, Merge>;

// The definition: of all pairs the lowest rank, of these the leftmost, one at a time.
std::vector<Symbol> by_definition(std::vector<Symbol> symbols, const Table& table) {
  for (;;) {
    size_t best = 0;
    Merge lowest{kNoRank, -1};
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = table.find({symbols[i].id, symbols[i + 1].id});
      if (found == table.end() || found->second.rank >= lowest.rank) continue;
      lowest = found->second;
      best = i;
    }
    if (lowest.rank == kNoRank) return symbols;
    symbols[best] = {lowest.id, symbols[best].begin, symbols[best + 1].end};
    symbols.erase(symbols.begin() + best + 1);
  }
}

std::vector<int32_t> flat(const std::vector<Symbol>& symbols) {
  std::vector<int32_t> out;
  for (const Symbol& s : symbols) {
    out.insert(out.end(), {s.id, static_cast<int32_t>(s.begin), static_cast<int32_t>(s.end)});
  }
  return out;
}

// Random merges of few letters: long tokens, and what is joined at the left depends on what stands far to the right.
Table random_table(std::mt19937& random, int letters, int merges) {
  Table table;
  int32_t next_id = letters;
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(merges); ++rank) {
    const auto pick = [&] { return static_cast<int32_t>(random() % static_cast<uint32_t>(next_id)); };
    table.try_emplace({pick(), pick()}, Merge{rank, next_id});
    if (random() % 4 != 0) ++next_id;  // some tokens have several merges
  }
  // Ranks in any order: a token may be made of one that comes later.
  std::vector<Merge*> all;
  for (auto& [key, merge] : table) all.push_back(&merge);
  if (random() % 2) {
    for (Merge* merge : all) std::swap(merge->rank, all[random() % all.size()]->rank);
  }
  return table;
}

TEST(BpeMerge, JoinsWordsOfEveryLengthAsTheDefinitionSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int letters = 1 + round % 4;
    const Table table = random_table(random, letters, 3 + round * 2);
    const auto look_up = [&](const Symbol& left, const Symbol& right) {
      const auto found = table.find({left.id, right.id});
      return found == table.end() ? Merge{kNoRank, -1} : found->second;
    };
    for (const uint32_t length : {1u, 2u, 48u, 49u, 200u, 1024u, 1025u, 2500u}) {
      if (length > 100 && round % (length > 1000 ? 20 : 5) != 0) continue;  // the definition takes quadratic time
      std::vector<Symbol> symbols;
      for (uint32_t i = 0; i < length; ++i) symbols.push_back({static_cast<int32_t>(random() % letters), i, i + 1});
      const auto want = flat(by_definition(symbols, table));
      for (const uint32_t num_ranks : {1000u, UINT32_MAX}) {
        std::vector<Symbol> got = symbols;
        merge_symbols(got, num_ranks, look_up);
        EXPECT_EQ(flat(got), want) << round << ", " << length;
      }
    }
  }
}

// The heap is held to the definition above; words of many windows take it too long. Words with a period, so that windows cut
// tokens in places of their own and may have none in common.
TEST(BpeMerge, JoinsLongWordsInWindowsAsTheHeapDoes) {
  std::mt19937 random(11);
  for (int round = 0; round < 150; ++round) {
    const int letters = 1 + round % 6;
    const Table table = random_table(random, letters, 3 + static_cast<int>(random() % 300));
    const auto look_up = [&](const Symbol& left, const Symbol& right) {
      const auto found = table.find({left.id, right.id});
      return found == table.end() ? Merge{kNoRank, -1} : found->second;
    };
    const uint32_t length = 1025 + random() % 5000, period = 1 + random() % 40;
    const uint32_t odd_letters = round % 3 == 0 ? 1 : 200;
    std::vector<Symbol> symbols;
    for (uint32_t i = 0; i < length; ++i) {
      const uint32_t letter = random() % odd_letters == 0 ? random() : i % period * 7;
      symbols.push_back({static_cast<int32_t>(letter % static_cast<uint32_t>(letters)), i, i + 1});
    }
    std::vector<Symbol> want = symbols;
    merging::merge_long(want, look_up);
    for (const uint32_t num_ranks : {1000u, UINT32_MAX}) {
      std::vector<Symbol> got = symbols;
      merge_symbols(got, num_ranks, look_up);
      EXPECT_EQ(flat(got), flat(want)) << round << ", " << length;
    }
  }
}

}  // namespace
}  // namespace headrace::text
