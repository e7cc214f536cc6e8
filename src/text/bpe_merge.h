#pragma once
// The loop of byte-pair encoding, for Bpe and ScoredBpe: of all neighbours that may be joined, those of the
// lowest rank are, and of these the leftmost, until none is left. O(n log n) time and memory linear in the
// symbols. Long words are joined in windows that stay in the first-level cache.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace headrace::text {

struct Symbol {
  static constexpr int32_t kErased = INT32_MIN;  // while merging: the right part of a pair that was joined
  int32_t id;
  uint32_t begin;  // bytes of the word
  uint32_t end;
};

struct Merge {
  uint32_t rank;
  int32_t id;  // of the joined symbol
};
inline constexpr uint32_t kNoRank = UINT32_MAX;

namespace merging {

// Up to this many symbols a scan for the lowest rank beats a heap: the ranks stay in the first-level cache.
inline constexpr size_t kShortWord = 48;

template <class LookUp>
void merge_short(std::vector<Symbol>& symbols, const LookUp& look_up) {
  Merge pairs[kShortWord];
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) pairs[i] = look_up(symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoRank) break;
    symbols[best] = {pairs[best].id, symbols[best].begin, symbols[best + 1].end};
    std::copy(symbols.begin() + best + 2, symbols.begin() + n, symbols.begin() + best + 1);
    std::copy(pairs + best + 1, pairs + n - 1, pairs + best);
    --n;
    if (best + 1 < n) pairs[best] = look_up(symbols[best], symbols[best + 1]);
    if (best > 0) pairs[best - 1] = look_up(symbols[best - 1], symbols[best]);
  }
  symbols.resize(n);
}

// The lowest of `count` numbers, a multiple of 8, at a multiple of 16 bytes.
inline int32_t lowest(const int32_t* numbers, size_t count) {
  using Four = int32_t __attribute__((vector_size(16)));
  const auto* const fours = reinterpret_cast<const Four*>(numbers);
  Four a = fours[0], b = fours[1];
  for (size_t i = 2; i < count / 4; i += 2) {
    a = fours[i] < a ? fours[i] : a;
    b = fours[i + 1] < b ? fours[i + 1] : b;
  }
  a = b < a ? b : a;
  return std::min(std::min(a[0], a[1]), std::min(a[2], a[3]));
}

// Each pair is a number, its rank above its position, so that the next pair is the lowest one. The lowest of each 16 positions
// is at hand: a join changes three of these at most.
inline constexpr int kPositionBits = 10;
inline constexpr size_t kMiddleWord = size_t{1} << kPositionBits;
inline constexpr uint32_t kMiddleRanks = (uint32_t{1} << (31 - kPositionBits)) - 1;

template <class LookUp>
void merge_middle(std::vector<Symbol>& symbols, const LookUp& look_up) {
  constexpr size_t kBlock = 16;
  constexpr int32_t kNone = INT32_MAX;
  constexpr uint16_t kEnd = UINT16_MAX;
  alignas(16) int32_t pair[kMiddleWord], low[kMiddleWord / kBlock];
  int32_t result[kMiddleWord];
  uint16_t next[kMiddleWord], previous[kMiddleWord];
  const size_t n = symbols.size(), num_blocks = (n + 8 * kBlock - 1) / (8 * kBlock) * 8;
  const auto look = [&](size_t at) {
    const Merge merge = next[at] == kEnd ? Merge{kNoRank, -1} : look_up(symbols[at], symbols[next[at]]);
    pair[at] = merge.rank == kNoRank ? kNone : static_cast<int32_t>(merge.rank << kPositionBits | at);
    result[at] = merge.id;
  };
  const auto refresh = [&](size_t block) { low[block] = lowest(pair + block * kBlock, kBlock); };
  for (size_t i = 0; i < n; ++i) {
    next[i] = i + 1 < n ? static_cast<uint16_t>(i + 1) : kEnd;
    previous[i] = i > 0 ? static_cast<uint16_t>(i - 1) : kEnd;
    look(i);
  }
  std::fill(pair + n, pair + num_blocks * kBlock, kNone);
  for (size_t block = 0; block < num_blocks; ++block) refresh(block);
  for (int32_t best; (best = lowest(low, num_blocks)) != kNone;) {
    const size_t at = static_cast<size_t>(best) % kMiddleWord, right = next[at];
    symbols[at] = {result[at], symbols[at].begin, symbols[right].end};
    symbols[right].id = Symbol::kErased;
    pair[right] = kNone;
    next[at] = next[right];
    if (next[at] != kEnd) previous[next[at]] = static_cast<uint16_t>(at);
    look(at);
    if (previous[at] != kEnd) {
      look(previous[at]);
      refresh(previous[at] / kBlock);
    }
    refresh(at / kBlock);
    refresh(right / kBlock);
  }
  std::erase_if(symbols, [](const Symbol& s) { return s.id == Symbol::kErased; });
}

// The queue holds (rank, position of the left symbol) packed into one integer. A merged symbol lives on as
// its left part; its right part is erased. An entry whose rank is not that of the pair that stands there now
// is stale. When two pairs have stood there with one rank, either entry means the pair of now: they have the
// same place in the queue.
template <class LookUp>
void merge_long(std::vector<Symbol>& symbols, const LookUp& look_up) {
  constexpr uint32_t kNone = UINT32_MAX;
  const auto n = static_cast<uint32_t>(symbols.size());
  std::vector<uint32_t> next(n), previous(n), rank(n, kNoRank);
  std::vector<int32_t> result(n);
  std::vector<uint64_t> heap;
  heap.reserve(n + 16);
  const auto offer = [&](uint32_t at) {
    const Merge merge = next[at] == kNone ? Merge{kNoRank, -1} : look_up(symbols[at], symbols[next[at]]);
    rank[at] = merge.rank;
    result[at] = merge.id;
    if (merge.rank != kNoRank) heap.push_back(static_cast<uint64_t>(merge.rank) << 32 | at);
    return merge.rank != kNoRank;
  };
  for (uint32_t i = 0; i < n; ++i) {
    next[i] = i + 1 < n ? i + 1 : kNone;
    previous[i] = i > 0 ? i - 1 : kNone;
    offer(i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    if (rank[at] != top >> 32) continue;
    const uint32_t right = next[at];
    symbols[at] = {result[at], symbols[at].begin, symbols[right].end};
    symbols[right].id = Symbol::kErased;
    rank[right] = kNoRank;
    next[at] = next[right];
    if (next[at] != kNone) previous[next[at]] = at;
    if (offer(at)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    if (previous[at] != kNone && offer(previous[at]))
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  std::erase_if(symbols, [](const Symbol& s) { return s.id == Symbol::kErased; });
}

template <class LookUp>
void merge_whole(std::vector<Symbol>& symbols, uint32_t num_ranks, const LookUp& look_up) {
  if (symbols.size() <= kShortWord) {
    merge_short(symbols, look_up);
  } else if (symbols.size() <= kMiddleWord && num_ranks < kMiddleRanks) {
    merge_middle(symbols, look_up);
  } else {
    merge_long(symbols, look_up);
  }
}

// Cuts a long word into windows that overlap. Why that gives the tokens of the whole: call neighbours (a, b) settled when
// joining the symbols of a and b alone gives a and b. (1) Neighbours in the result for any stretch are settled: no join crossed
// them, so the joins inside a and b were done in the order in which they would have been done alone. (2) A row of tokens in
// which all neighbours are settled is the result for the whole: else look at the first join that crosses two of the tokens, a
// and b; until then both went through the states that they go through alone, and there this join would have come next, too.
// So tokens may be kept that a window gave, as long as each next window begins with a token that the one before gave in the
// same place. Where it does not, the window was too short to see what the place depends on, and is doubled.
inline constexpr size_t kWindow = 512;     // symbols
inline constexpr size_t kUncertain = 16;   // tokens at a window's end that the next window finds again

template <class LookUp>
void merge_in_windows(std::vector<Symbol>& symbols, uint32_t num_ranks, const LookUp& look_up) {
  const size_t n = symbols.size();
  std::vector<Symbol> out, window, next;
  const auto merge_from = [&](size_t begin, size_t size, std::vector<Symbol>& to) {
    to.assign(symbols.begin() + begin, symbols.begin() + std::min(n, begin + size));
    merge_whole(to, num_ranks, look_up);
  };
  const auto index_of = [&](const Symbol& token) {
    const auto found = std::lower_bound(symbols.begin(), symbols.end(), token.begin,
                                        [](const Symbol& s, uint32_t at) { return s.begin < at; });
    return static_cast<size_t>(found - symbols.begin());
  };
  size_t begin = 0, size = kWindow;
  merge_from(begin, size, window);
  while (begin + size < n) {
    const size_t certain = window.size() - std::min(kUncertain, window.size() / 4);
    if (certain < window.size()) {
      const Symbol& border = window[certain];
      const size_t next_begin = index_of(border);
      merge_from(next_begin, kWindow, next);
      if (next[0].id == border.id && next[0].begin == border.begin && next[0].end == border.end) {
        out.insert(out.end(), window.begin(), window.begin() + certain);
        window.swap(next);
        begin = next_begin;
        size = kWindow;
        continue;
      }
    }
    size *= 2;
    merge_from(begin, size, window);
  }
  out.insert(out.end(), window.begin(), window.end());
  symbols.swap(out);
}

}  // namespace merging

// `look_up(left, right)` is the Merge of two neighbours, its rank below `num_ranks`, or kNoRank when they may not be joined.
template <class LookUp>
void merge_symbols(std::vector<Symbol>& symbols, uint32_t num_ranks, const LookUp& look_up) {
  if (symbols.size() <= merging::kMiddleWord) {
    merging::merge_whole(symbols, num_ranks, look_up);
  } else {
    merging::merge_in_windows(symbols, num_ranks, look_up);
  }
}

}  // namespace headrace::text
