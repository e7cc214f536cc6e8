#pragma once
// The loop of byte-pair encoding, for Bpe and ScoredBpe: of all neighbours that may be joined, those of the
// lowest rank are, and of these the leftmost, until none is left. O(n log n) time and memory linear in the
// symbols. Long words are joined in windows that stay in the first-level cache.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <span>
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

// Between these lie the numbers of pairs. Read as floating-point numbers they are normal ones up to infinity,
// in the same order: every processor finds the lower of four of those at once, whatever it does with
// subnormal ones.
inline constexpr int32_t kFirstPair = 0x00800000, kNoPair = 0x7F800000;

// The lowest of `count` numbers, which is a multiple of 8.
inline int32_t lowest(const int32_t* numbers, size_t count) {
  using Four = float __attribute__((vector_size(16)));
  const auto four = [&](size_t at) {
    Four of_there;
    std::memcpy(&of_there, numbers + at, sizeof(of_there));
    return of_there;
  };
  const auto lower = [](Four a, Four b) { return a < b ? a : b; };
  Four a = four(0), b = four(4);
  for (size_t i = 8; i < count; i += 8) {
    a = lower(four(i), a);
    b = lower(four(i + 4), b);
  }
  a = lower(a, b);
  a = lower(a, __builtin_shufflevector(a, a, 2, 3, 0, 1));
  a = lower(a, __builtin_shufflevector(a, a, 1, 0, 3, 2));
  return std::bit_cast<int32_t>(a[0]);
}

inline constexpr int kPositionBits = 10;
inline constexpr size_t kMiddleWord = size_t{1} << kPositionBits;
inline constexpr uint32_t kMiddleRanks = (kNoPair - kFirstPair) >> kPositionBits;

// Joins up to kMiddleWord symbols. Each pair is a number, its rank above its position, so that the next pair
// is the lowest one. The lowest of each 16 positions is at hand: a join changes three of these at most. A
// join needs what the one before wrote, some 200 cycles of waiting for the most part: windows that take turns
// fill each other's.
class Window {
 public:
  // At most kMiddleWord symbols; ranks are below kMiddleRanks.
  template <class LookUp>
  void begin(std::span<const Symbol> symbols, const LookUp& look_up) {
    const size_t n = symbols.size();
    num_symbols_ = n;
    num_blocks_ = (n + 8 * kBlock - 1) / (8 * kBlock) * 8;
    std::copy(symbols.begin(), symbols.end(), symbols_);
    for (size_t i = 0; i < n; ++i) {
      next_[i] = i + 1 < n ? static_cast<uint16_t>(i + 1) : kEnd;
      previous_[i] = i > 0 ? static_cast<uint16_t>(i - 1) : kEnd;
      look(i, look_up);
    }
    std::fill(pair_ + n, pair_ + num_blocks_ * kBlock, kNoPair);
    for (size_t block = 0; block < num_blocks_; ++block) refresh(block);
  }

  // The next pair becomes one symbol; false when none is left. Asks for what look_again() will look at.
  template <class LookUp>
  bool join(const LookUp& look_up) {
    const int32_t best = lowest(low_, num_blocks_);
    if (best == kNoPair) return false;
    const size_t at = static_cast<size_t>(best) % kMiddleWord, right = next_[at];
    symbols_[at] = {result_[at], symbols_[at].begin, symbols_[right].end};
    symbols_[right].id = Symbol::kErased;
    pair_[right] = kNoPair;
    next_[at] = next_[right];
    if (next_[at] != kEnd) previous_[next_[at]] = static_cast<uint16_t>(at);
    joined_ = at;
    joined_right_ = right;
    if constexpr (requires { look_up.prefetch(symbols_[0], symbols_[0]); }) {
      if (next_[at] != kEnd) look_up.prefetch(symbols_[at], symbols_[next_[at]]);
      if (previous_[at] != kEnd) look_up.prefetch(symbols_[previous_[at]], symbols_[at]);
    }
    return true;
  }

  // The pairs of the symbol that join() made; comes before the next join().
  template <class LookUp>
  void look_again(const LookUp& look_up) {
    const size_t at = joined_;
    look(at, look_up);
    if (previous_[at] != kEnd) {
      look(previous_[at], look_up);
      refresh(previous_[at] / kBlock);
    }
    refresh(at / kBlock);
    refresh(joined_right_ / kBlock);
  }

  void end(std::vector<Symbol>& out) const {
    out.clear();
    std::copy_if(symbols_, symbols_ + num_symbols_, std::back_inserter(out),
                 [](const Symbol& s) { return s.id != Symbol::kErased; });
  }

 private:
  static constexpr size_t kBlock = 16;
  static constexpr uint16_t kEnd = UINT16_MAX;

  template <class LookUp>
  void look(size_t at, const LookUp& look_up) {
    const Merge merge = next_[at] == kEnd ? Merge{kNoRank, -1} : look_up(symbols_[at], symbols_[next_[at]]);
    pair_[at] =
        merge.rank == kNoRank ? kNoPair : kFirstPair + static_cast<int32_t>(merge.rank << kPositionBits | at);
    result_[at] = merge.id;
  }
  void refresh(size_t block) { low_[block] = lowest(pair_ + block * kBlock, kBlock); }

  alignas(16) int32_t pair_[kMiddleWord];
  alignas(16) int32_t low_[kMiddleWord / kBlock];
  size_t num_symbols_ = 0, num_blocks_ = 0;
  size_t joined_ = 0, joined_right_ = 0;
  Symbol symbols_[kMiddleWord];
  int32_t result_[kMiddleWord];
  uint16_t next_[kMiddleWord], previous_[kMiddleWord];
};

template <class LookUp>
void merge_middle(std::vector<Symbol>& symbols, const LookUp& look_up) {
  Window window;
  window.begin(symbols, look_up);
  while (window.join(look_up)) window.look_again(look_up);
  window.end(symbols);
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

// Cuts a long word into windows that overlap. Why that gives the tokens of the whole: call neighbours (a, b)
// settled when joining the symbols of a and b alone gives a and b. (1) Neighbours in the result for any
// stretch are settled: no join crossed them, so the joins inside a and b were done in the order in which they
// would have been done alone. (2) A row of tokens in which all neighbours are settled is the result for the
// whole: else look at the first join that crosses two of the tokens, a and b; until then both went through
// the states that they go through alone, and there this join would have come next, too. So a window's tokens
// go on with those of the next window from any token that both gave in the same place. Windows may begin
// anywhere, then, and several are joined in turns. Where two have no such token, the next window begins with
// a token that the one before gave; where it does not give that token itself, the window before was too short
// to see what the place depends on, and is doubled.
inline constexpr size_t kWindow = 512;    // symbols
inline constexpr size_t kOverlap = 48;    // symbols that two windows in turns share
inline constexpr size_t kUncertain = 16;  // tokens at a window's end that the next window finds again
inline constexpr size_t kTurns = 3;       // windows at once: 12 KiB of the first-level cache each

template <class LookUp>
class LongWord {
 public:
  LongWord(std::vector<Symbol>& symbols, uint32_t num_ranks, const LookUp& look_up)
      : symbols_(symbols), num_ranks_(num_ranks), look_up_(look_up) {}

  void merge() {
    bool in_turns = num_ranks_ < kMiddleRanks;
    if (!in_turns) {
      end_ = kWindow;
      merge_stretch(0, end_, tokens_);
    }
    while (end_ < symbols_.size()) {
      if (in_turns) {
        in_turns = add_windows();
      } else {
        add_window();
      }
    }
    keep(tokens_.size());
    symbols_.swap(out_);
  }

 private:
  static bool same(const Symbol& a, const Symbol& b) {
    return a.id == b.id && a.begin == b.begin && a.end == b.end;
  }
  static auto first_from(std::vector<Symbol>& row, uint32_t at) {
    return std::lower_bound(row.begin(), row.end(), at,
                            [](const Symbol& s, uint32_t begin) { return s.begin < begin; });
  }

  void keep(size_t num_tokens) { out_.insert(out_.end(), tokens_.begin(), tokens_.begin() + num_tokens); }

  void merge_stretch(size_t begin, size_t end, std::vector<Symbol>& to) {
    to.assign(symbols_.begin() + begin, symbols_.begin() + std::min(symbols_.size(), end));
    merge_whole(to, num_ranks_, look_up_);
  }

  // One more window, that begins with a token of the last one, or a last one of twice the length.
  void add_window() {
    const auto index_of = [&](const Symbol& token) {
      return static_cast<size_t>(first_from(symbols_, token.begin) - symbols_.begin());
    };
    const size_t certain = tokens_.size() - std::min(kUncertain, tokens_.size() / 4);
    if (certain < tokens_.size()) {
      const size_t begin = index_of(tokens_[certain]);
      std::vector<Symbol>& next = results_[0];
      merge_stretch(begin, begin + kWindow, next);
      if (same(next[0], tokens_[certain])) {
        keep(certain);
        tokens_.swap(next);
        end_ = begin + kWindow;
        return;
      }
    }
    const size_t begin = index_of(tokens_[0]);
    end_ = begin + 2 * (end_ - begin);
    merge_stretch(begin, end_, tokens_);
  }

  // Several windows, joined in turns. False when one has no token in common with the one before.
  bool add_windows() {
    constexpr size_t stride = kWindow - kOverlap;
    const size_t first = end_ > 0 ? end_ - kOverlap : 0;
    size_t count = 0;
    for (; count < kTurns && first + count * stride < symbols_.size(); ++count) {
      const size_t begin = first + count * stride;
      windows_[count].begin(std::span(symbols_).subspan(begin, std::min(kWindow, symbols_.size() - begin)),
                            look_up_);
    }
    std::array<bool, kTurns> joined;
    do {
      for (size_t i = 0; i < kTurns; ++i) joined[i] = i < count && windows_[i].join(look_up_);
      for (size_t i = 0; i < kTurns; ++i) {
        if (joined[i]) windows_[i].look_again(look_up_);
      }
    } while (std::find(joined.begin(), joined.end(), true) != joined.end());
    for (size_t i = 0; i < count; ++i) {
      windows_[i].end(results_[i]);
      if (end_ == 0) {
        tokens_.swap(results_[0]);
      } else if (!go_on_with(results_[i])) {
        return false;
      }
      end_ = first + i * stride + kWindow;
    }
    return true;
  }

  bool go_on_with(std::vector<Symbol>& next) {
    auto found = next.begin();
    for (auto old = first_from(tokens_, found->begin); old != tokens_.end() && found != next.end();) {
      if (same(*old, *found)) {
        keep(static_cast<size_t>(old - tokens_.begin()));
        tokens_.assign(found, next.end());
        return true;
      }
      if (old->end <= found->end) {
        ++old;
      } else {
        ++found;
      }
    }
    return false;
  }

  std::vector<Symbol>& symbols_;
  uint32_t num_ranks_;
  const LookUp& look_up_;
  std::vector<Symbol> out_;     // tokens of the word's begin
  std::vector<Symbol> tokens_;  // those behind them, up to the symbol end_: the result for a stretch
  size_t end_ = 0;              // may be beyond the last symbol
  std::array<std::vector<Symbol>, kTurns> results_;
  std::array<Window, kTurns> windows_;
};

}  // namespace merging

// `look_up(left, right)` is the Merge of two neighbours, its rank below `num_ranks`, or kNoRank when they may
// not be joined; `look_up.prefetch(left, right)`, where there is one, asks for the memory that this will look
// at.
template <class LookUp>
void merge_symbols(std::vector<Symbol>& symbols, uint32_t num_ranks, const LookUp& look_up) {
  if (symbols.size() <= merging::kMiddleWord) {
    merging::merge_whole(symbols, num_ranks, look_up);
  } else {
    merging::LongWord<LookUp>(symbols, num_ranks, look_up).merge();
  }
}

}  // namespace headrace::text
