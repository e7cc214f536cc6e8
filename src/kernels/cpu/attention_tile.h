#pragma once
// The arithmetic of attention for one tile: up to kMaxRows rows (query, head) of one sequence that share a kv
// head, so that each key and value is loaded and widened once for all of them (decode with grouped heads,
// prefill tiles).
//
// A row's bits depend on its query, its keys and their absolute positions alone:
//   - a score is one chain of multiply-adds over head_dim; a weighted value one chain over the chunk's keys;
//   - a chunk is 256 keys at an absolute multiple of 256, its (maximum, sum, values) made apart and merged in
//   rising order;
//   - keys that a row does not see have weight +0, which changes no sum.
// So tile size, row order, register blocking and who computes a chunk are free choices.

#include "kernels/cpu/lanes.h"
#include "ops/attention.h"

HR_BEGIN_KERNELS
namespace {

constexpr int kChunk = ops::kAttentionChunk;
constexpr int kBlock = kKvBlockTokens;
static_assert(kBlock == kLanes);
constexpr int kBlocksPerChunk = kChunk / kBlock;

// 24 rows: register groups of 6 (12 accumulators of 16 AVX2 registers; 3 rows are as many of plain vectors),
// and a weight buffer of 24 KB. Four blocks of keys, 8 KB in half precision, pass by all groups while they
// are in the first-level cache.
constexpr int kMaxRows = 24;
constexpr int kGroupRows = kIsa == Isa::generic ? 3 : 6;
constexpr int kBlocksAtOnce = 4;

HR_INLINE int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}
HR_INLINE int64_t at_least(int64_t a, int64_t b) {
  return a > b ? a : b;
}
HR_INLINE int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Keys [begin, end) that a row sees.
struct KeyRange {
  int64_t begin, end;
};

HR_INLINE KeyRange visible_keys(const ops::AttentionAttrs& a, int64_t position, int64_t num_keys) {
  KeyRange range{0, a.causal ? position + 1 : num_keys};
  if (a.window > 0) {
    range.begin = at_least(0, position - a.window + 1);
    range.end = at_most(range.end, position + a.window);
  }
  range.end = at_most(range.end, num_keys);
  return range;
}

// One member's memory: rows are `stride` floats apart, head_dim rounded up to whole lanes.
struct Workspace {
  float* query;   // [kMaxRows][stride], times scale
  float* weight;  // [kMaxRows][kChunk]: scores, then their exponentials
  float* part;    // [kMaxRows][stride]: a chunk's weighted values
  float* merged;  // [kMaxRows][stride]
  float* keys;    // [head_dim][kBlock]: a block transposed, where keys lie in rows
  int64_t stride;

  static int64_t stride_of(int head_dim) { return ceil_div(head_dim, kLanes) * kLanes; }
  static int64_t floats(int head_dim) {
    return kMaxRows * (3 * stride_of(head_dim) + kChunk) + kBlocksAtOnce * stride_of(head_dim) * kBlock;
  }
  static Workspace at(float* memory, int head_dim) {
    const int64_t stride = stride_of(head_dim);
    const int64_t rows = kMaxRows * stride;
    return {
        memory, memory + 3 * rows, memory + rows, memory + 2 * rows, memory + 3 * rows + kMaxRows * kChunk,
        stride};
  }
};

// The softmax of some keys, not yet divided by its sum.
struct Softmax {
  float peak;
  float total;
};

struct Tile {
  int rows = 0;
  KeyRange range[kMaxRows];  // what each row sees
  KeyRange span{0, 0};       // the union
};

// ---- scores -------------------------------------------------------------------------------------

// How many blocks are scored together for `R` rows: a multiply-add waits four cycles for the last, two start
// a cycle, so eight chains keep the units busy.
template <int R>
constexpr int blocks_together() {
  if (kIsa == Isa::avx512) return R <= 3 ? 4 : 2;
  if (kIsa == Isa::avx2) return R == 1 ? 4 : R <= 3 ? 2 : 1;
  return 1;
}

// The 16 keys of a block, [head_dim][16]; of codes, a scale for each.
template <class T>
struct KeyBlock {
  static constexpr bool kScaled = sizeof(T) == 1;
  const T* keys;
  const float* scales;  // null unless kScaled
};

// scores[r][b * 16 ..] = query r . key, for the keys of each of B blocks.
template <int R, int B, class T>
HR_INLINE void score_blocks(const KeyBlock<T>* blocks, const float* query, int64_t stride, int head_dim,
                            float* scores) {
  Lanes sums[B][R];
  for (int b = 0; b < B; ++b) {
    for (int r = 0; r < R; ++r) sums[b][r] = zero();
  }
  for (int d = 0; d < head_dim; ++d) {
    Lanes q[R];
    for (int r = 0; r < R; ++r) q[r] = broadcast(query[r * stride + d]);
    for (int b = 0; b < B; ++b) {
      const Lanes key = load(blocks[b].keys + d * kBlock);
      for (int r = 0; r < R; ++r) sums[b][r] = mul_add(q[r], key, sums[b][r]);
    }
  }
  for (int b = 0; b < B; ++b) {
    if constexpr (KeyBlock<T>::kScaled) {
      const Lanes scale = load(blocks[b].scales);
      for (int r = 0; r < R; ++r) sums[b][r] = sums[b][r] * scale;
    }
    for (int r = 0; r < R; ++r) store(scores + r * kChunk + b * kBlock, sums[b][r]);
  }
}

// The same for `count` blocks, at most kBlocksAtOnce.
template <int R, class T>
HR_INLINE void score_rows(const KeyBlock<T>* blocks, int count, const float* query, int64_t stride, int head_dim,
                          float* scores) {
  constexpr int kTogether = blocks_together<R>();
  int b = 0;
  for (; b + kTogether <= count; b += kTogether) {
    score_blocks<R, kTogether>(blocks + b, query, stride, head_dim, scores + b * kBlock);
  }
  if constexpr (kTogether > 1) {
    for (; b < count; ++b) score_blocks<R, 1>(blocks + b, query, stride, head_dim, scores + b * kBlock);
  }
}

// ---- weighted values ----------------------------------------------------------------------------

// How many 16-lane columns of `R` rows are accumulated at once.
template <int R>
constexpr int columns_at_once() {
  if (kIsa == Isa::avx512) return R <= 6 ? 4 : 1;
  if (kIsa == Isa::avx2) return R == 1 ? 4 : R <= 3 ? 2 : 1;
  return R == 1 ? 2 : 1;
}

// part[r][0..16*C) = sum of weight[r][key] * value[key][...] over keys [begin, end) of a chunk.
template <int R, int C, class Source>
HR_INLINE void weigh_columns(const Source& source, int64_t chunk, int begin, int end, const float* weight,
                             int column, int tail, float* part, int64_t stride) {
  Lanes sums[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sums[r][c] = zero();
  }
  for (int key = begin; key < end;) {
    const int block = key / kBlock;
    const int stop = static_cast<int>(at_most(end, (block + 1) * kBlock));
    const auto* value = source.values(chunk * kBlocksPerChunk + block) +
                        (key - block * kBlock) * source.value_stride() + column;
    for (; key < stop; ++key, value += source.value_stride()) {
      Lanes v[C];
      for (int c = 0; c < C; ++c) v[c] = tail == 0 ? load(value + c * kLanes) : load_part(value, tail);
      for (int r = 0; r < R; ++r) {
        const Lanes w = broadcast(weight[r * kChunk + key]);
        for (int c = 0; c < C; ++c) sums[r][c] = mul_add(w, v[c], sums[r][c]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) store(part + r * stride + column + c * kLanes, sums[r][c]);
  }
}

template <int R, class Source>
HR_INLINE void weigh_rows(const Source& source, int64_t chunk, int begin, int end, int head_dim,
                          const float* weight, float* part, int64_t stride) {
  constexpr int kColumns = columns_at_once<R>();
  int column = 0;
  for (; column + kColumns * kLanes <= head_dim; column += kColumns * kLanes) {
    weigh_columns<R, kColumns>(source, chunk, begin, end, weight, column, 0, part, stride);
  }
  for (; column + kLanes <= head_dim; column += kLanes) {
    weigh_columns<R, 1>(source, chunk, begin, end, weight, column, 0, part, stride);
  }
  if (column < head_dim) {
    weigh_columns<R, 1>(source, chunk, begin, end, weight, column, head_dim - column, part, stride);
  }
}

// Calls use.operator()<R>(first row) for groups of at most kGroupRows rows.
template <class Use>
HR_INLINE void over_row_groups(int rows, Use use) {
  int row = 0;
  for (; row + kGroupRows <= rows; row += kGroupRows) use.template operator()<kGroupRows>(row);
  const int left = rows - row;
  if (left == 1) use.template operator()<1>(row);
  if (left == 2) use.template operator()<2>(row);
  if constexpr (kGroupRows > 3) {
    if (left == 3) use.template operator()<3>(row);
    if (left == 4) use.template operator()<4>(row);
    if (left == 5) use.template operator()<5>(row);
  }
}

// ---- softmax ------------------------------------------------------------------------------------

HR_INLINE int clamp_lane(int64_t lane) {
  return static_cast<int>(at_most(at_least(lane, 0), kLanes));
}

// Turns one row's scores of a chunk into exponentials, 0 where keys [begin, end) do not reach. [0, blocks)
// are the blocks that the tile computes, counted from the chunk's start like begin and end. The exponentials
// of codes are then weighted by their values' scales: the sum is not.
template <class Source>
HR_INLINE Softmax soften(const ops::AttentionAttrs& a, const Source& source, int64_t chunk, float* row,
                         int first_block, int end_block, int begin, int end) {
  const int first = begin / kBlock;
  const int last = (end + kBlock - 1) / kBlock;
  Lanes top = broadcast(kMinusInfinity);
  for (int b = first; b < last; ++b) {
    Lanes score = load(row + b * kBlock);
    if (a.softcap > 0) score = tanh(score * broadcast(1.0f / a.softcap)) * broadcast(a.softcap);
    const int low = clamp_lane(begin - b * kBlock);
    const int high = clamp_lane(end - b * kBlock);
    if (low > 0 || high < kLanes) score = keep_range(score, low, high, kMinusInfinity);
    store(row + b * kBlock, score);
    top = max(top, score);
  }
  const float peak = largest(top);
  const Lanes shift = broadcast(peak);
  Lanes total = zero();
  for (int b = first; b < last; ++b) {
    Lanes weight = exp(load(row + b * kBlock) - shift);
    total = total + weight;
    if constexpr (KeyBlock<typename Source::Element>::kScaled) {
      weight = weight * load(source.value_scales(chunk * kBlocksPerChunk + b));
      const int low = clamp_lane(begin - b * kBlock);
      const int high = clamp_lane(end - b * kBlock);
      if (low > 0 || high < kLanes) weight = keep_range(weight, low, high, 0.0f);  // a scale may be NaN
    }
    store(row + b * kBlock, weight);
  }
  for (int b = first_block; b < first; ++b) store(row + b * kBlock, zero());
  for (int b = last; b < end_block; ++b) store(row + b * kBlock, zero());
  return {peak, sum(total)};
}

// into = into merged with the next chunk.
HR_INLINE void merge(Softmax& into, float* into_values, const Softmax& next, const float* next_values,
                     int64_t stride) {
  const float peak = into.peak > next.peak ? into.peak : next.peak;
  const float keep = exp(into.peak - peak);
  const float add = exp(next.peak - peak);
  into = {peak, mul_add(into.total, keep, next.total * add)};
  const Lanes k = broadcast(keep);
  const Lanes n = broadcast(add);
  for (int64_t i = 0; i < stride; i += kLanes) {
    store(into_values + i, mul_add(load(into_values + i), k, load(next_values + i) * n));
  }
}

// ---- a chunk, a tile ----------------------------------------------------------------------------

HR_INLINE bool sees(const Tile& tile, int row, int64_t chunk) {
  const KeyRange& range = tile.range[row];
  return range.begin < (chunk + 1) * kChunk && range.end > chunk * kChunk && range.begin < range.end;
}

// One chunk for every row of a tile: softmax[row] and part[row]; rows that see none of it are left with what
// they have.
template <class Source>
void compute_chunk(const ops::AttentionAttrs& a, const Source& source, const Tile& tile, int64_t chunk,
                   const Workspace& w, Softmax* softmax, float* part) {
  const int64_t base = chunk * kChunk;
  const int begin = static_cast<int>(at_least(tile.span.begin - base, 0));
  const int end = static_cast<int>(at_most(tile.span.end - base, kChunk));
  const int first_block = begin / kBlock;
  const int end_block = static_cast<int>(ceil_div(end, kBlock));
  // Few rows: bound by reading. The next keys and these values come while keys are scored.
  const bool fetches = tile.rows <= kGroupRows;
  const auto fetch_keys = [&](int from) {
    for (int b = from; b < from + kBlocksAtOnce && b < end_block; ++b) source.fetch_keys(chunk * kBlocksPerChunk + b);
  };
  if (fetches) fetch_keys(first_block);
  for (int b = first_block; b < end_block; b += kBlocksAtOnce) {
    if (fetches) {
      fetch_keys(b + kBlocksAtOnce);
      for (int v = b; v < b + kBlocksAtOnce && v < end_block; ++v) source.fetch_values(chunk * kBlocksPerChunk + v);
    }
    const int count = static_cast<int>(at_most(kBlocksAtOnce, end_block - b));
    KeyBlock<typename Source::Element> blocks[kBlocksAtOnce] = {};
    for (int i = 0; i < count; ++i) blocks[i] = source.keys(chunk * kBlocksPerChunk + b + i);
    over_row_groups(
        tile.rows, [&]<int R>(int row) __attribute__((always_inline)) {
          score_rows<R>(blocks, count, w.query + row * w.stride, w.stride, a.head_dim,
                        w.weight + row * kChunk + b * kBlock);
        });
  }
  for (int row = 0; row < tile.rows; ++row) {
    float* weights = w.weight + row * kChunk;
    if (sees(tile, row, chunk)) {
      softmax[row] = soften(a, source, chunk, weights, first_block, end_block,
                            static_cast<int>(at_least(tile.range[row].begin - base, 0)),
                            static_cast<int>(at_most(tile.range[row].end - base, kChunk)));
    } else {
      for (int b = first_block; b < end_block; ++b) store(weights + b * kBlock, zero());
    }
  }
  over_row_groups(
      tile.rows, [&]<int R>(int row) __attribute__((always_inline)) {
        weigh_rows<R>(source, chunk, begin, end, a.head_dim, w.weight + row * kChunk, part + row * w.stride,
                      w.stride);
      });
}

// Divides by the sum and writes head_dim floats. A row that sees nothing gives zeros.
HR_INLINE void finish_row(const ops::AttentionAttrs& a, int head, Softmax softmax, bool any,
                          const float* values, float* out) {
  float share = 0.0f;
  if (any) {
    float total = softmax.total;
    float keep = 1.0f;
    if (!a.sinks.empty()) {
      const float sink = a.sinks[head];
      const float peak = softmax.peak > sink ? softmax.peak : sink;
      keep = exp(softmax.peak - peak);
      total = mul_add(total, keep, exp(sink - peak));
    }
    share = keep / total;
  }
  const Lanes scale = broadcast(share);
  int i = 0;
  for (; i + kLanes <= a.head_dim; i += kLanes) store(out + i, any ? load(values + i) * scale : zero());
  if (i < a.head_dim) store_part(out + i, any ? load(values + i) * scale : zero(), a.head_dim - i);
}

}  // namespace
HR_END_KERNELS
