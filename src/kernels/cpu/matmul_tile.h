#pragma once
// How a kernel reads one tile16 tile (quant/layout.h): per format, the next columns of 16 rows as floats, exactly as the
// format decodes them, and for block formats the codes and scales that an integer dot product needs. Also where a
// matmul's work is cut into claims.

#include "kernels/cpu/simd.h"
#include "quant/layout.h"

HR_BEGIN_KERNELS

// ---- plain formats: kColumns columns in kBytes -----------------------------------------------------------------

struct TileF32 {
  static constexpr Format kFormat = Format::f32;
  static constexpr int kColumns = 1, kBytes = 64;
  template <class F>
  HR_INLINE static void columns(const std::byte* at, F&& f) {
    f(0, load(reinterpret_cast<const float*>(at)));
  }
};

struct TileF16 {
  static constexpr Format kFormat = Format::f16;
  static constexpr int kColumns = 1, kBytes = 32;
  template <class F>
  HR_INLINE static void columns(const std::byte* at, F&& f) {
    f(0, load_f16(at));
  }
};

struct TileBf16 {
  static constexpr Format kFormat = Format::bf16;
  static constexpr int kColumns = 2, kBytes = 64;
  template <class F>
  HR_INLINE static void columns(const std::byte* at, F&& f) {
    const I32x16 pairs = load_i32(at);
    f(0, bf16_first(pairs));
    f(1, bf16_second(pairs));
  }
};

// ---- block formats: 32 columns a block -------------------------------------------------------------------------

template <int kShift>
HR_INLINE F32x16 nibble(const I32x16& word) {
  return to_f32(shift_right<kShift>(word) & broadcast(15));
}
template <int kShift>
HR_INLINE F32x16 unsigned_byte(const I32x16& word) {
  return to_f32(shift_right<kShift>(word) & broadcast(255));
}

// The 32 columns of four words of 4-bit codes, through `decode(code)`.
template <class Decode, class F>
HR_INLINE void nibble_columns(const std::byte* words, const Decode& decode, F&& f) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const I32x16 word = load_i32(words + 64 * i);
    f(4 * i + 0, decode(nibble<0>(word)));
    f(4 * i + 1, decode(nibble<8>(word)));
    f(4 * i + 2, decode(nibble<16>(word)));
    f(4 * i + 3, decode(nibble<24>(word)));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const I32x16 word = load_i32(words + 64 * i);
    f(16 + 4 * i + 0, decode(nibble<4>(word)));
    f(16 + 4 * i + 1, decode(nibble<12>(word)));
    f(16 + 4 * i + 2, decode(nibble<20>(word)));
    f(16 + 4 * i + 3, decode(nibble<28>(word)));
  }
}

struct TileQ4_0 {
  static constexpr Format kFormat = Format::q4_0;
  static constexpr int kGroups = 1;  // of scales
  static constexpr int kColumns = 32, kBytes = 288;
  static constexpr int kCodes = 32;  // offset of the words
  static constexpr bool kNibbles = true, kHasMin = false;
  static constexpr int kZero = 8;  // the code that means 0
  HR_INLINE static F32x16 scale(const std::byte* at, int = 0) { return load_f16(at); }
  HR_INLINE static F32x16 min(const std::byte*, int = 0) { return zero_f32(); }
  template <class F>
  HR_INLINE static void columns(const std::byte* at, F&& f) {
    const F32x16 s = scale(at);
    nibble_columns(at + kCodes, [&](const F32x16& code) HR_INLINE_LAMBDA { return s * (code - broadcast(8.0f)); }, f);
  }
};

struct TileQ4_1 {
  static constexpr Format kFormat = Format::q4_1;
  static constexpr int kGroups = 1;  // of scales
  static constexpr int kColumns = 32, kBytes = 320;
  static constexpr int kCodes = 64;
  static constexpr bool kNibbles = true, kHasMin = true;
  static constexpr int kZero = 0;
  HR_INLINE static F32x16 scale(const std::byte* at, int = 0) { return load_f16(at); }
  HR_INLINE static F32x16 min(const std::byte* at, int = 0) { return load_f16(at + 32); }
  template <class F>
  HR_INLINE static void columns(const std::byte* at, F&& f) {
    const F32x16 s = scale(at);
    const F32x16 m = min(at);
    nibble_columns(at + kCodes, [&](const F32x16& code) HR_INLINE_LAMBDA { return s * code + m; }, f);
  }
};

struct TileQ8_0 {
  static constexpr Format kFormat = Format::q8_0;
  static constexpr int kGroups = 1;  // of scales
  static constexpr int kColumns = 32, kBytes = 544;
  static constexpr int kCodes = 32;
  static constexpr bool kNibbles = false, kHasMin = false;
  static constexpr int kZero = 128;
  HR_INLINE static F32x16 scale(const std::byte* at, int = 0) { return load_f16(at); }
  HR_INLINE static F32x16 min(const std::byte*, int = 0) { return zero_f32(); }
  template <class F>
  HR_INLINE static void columns(const std::byte* at, F&& f) {
    const F32x16 s = scale(at);
    const F32x16 zero = broadcast(128.0f);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const I32x16 word = load_i32(at + kCodes + 64 * i);
      f(4 * i + 0, (unsigned_byte<0>(word) - zero) * s);
      f(4 * i + 1, (unsigned_byte<8>(word) - zero) * s);
      f(4 * i + 2, (unsigned_byte<16>(word) - zero) * s);
      f(4 * i + 3, (unsigned_byte<24>(word) - zero) * s);
    }
  }
};

// ---- work ------------------------------------------------------------------------------------------------------

// A matmul is cut into chunks of tokens, whose packed activations stay in L2, and groups of tiles. A claim is one group
// for one chunk; the group is the fast index, so a thread packs a chunk once and then claims groups of it. Groups shrink:
// each round of the team takes half of what is left, the last one all. Long runs keep a core's prefetchers going (two cores
// read 42 GB/s in halves where runs of 32 KB gave 30), short ones at the end even out a busy neighbour. None of this changes
// a bit of the result.
inline constexpr int64_t kFewTokens = 64;  // up to here reading the weights weighs as much as the arithmetic

class Claims {
 public:
  // Groups are whole multiples of `unit` tiles, but for the last.
  Claims(int64_t tokens, int64_t rows, int64_t tile_bytes, int64_t chunk, int team_size, int unit = 1)
      : tiles_((rows + kTileRows - 1) / kTileRows), chunk_(chunk), tokens_(tokens), team_(team_size), unit_(unit) {
    const int64_t chunks = (tokens + chunk - 1) / chunk;
    least_ = kLeastRun / (tile_bytes > 0 ? tile_bytes : 1);
    // Many tokens: bound by arithmetic, and a tile takes long.
    const int64_t by_balance = tiles_ * chunks / (8 * team_size);
    if (tokens > kFewTokens && least_ > by_balance) least_ = by_balance;
    if (least_ < 1) least_ = 1;
    for (int64_t left = tiles_; left > 0;) {
      const int64_t size = group_size(left), whole = left / size;
      const int64_t taken = whole < team_ ? whole : team_;
      groups_ += taken;
      left -= taken * size;
      if (taken < team_ && left > 0) {
        ++groups_;
        left = 0;
      }
    }
    count_ = groups_ * chunks;
  }

  int64_t count() const { return count_; }

  struct Part {
    int64_t chunk, first_token, tokens, first_tile, end_tile;
  };
  Part part(int64_t claim) const {
    const int64_t chunk = claim / groups_, group = claim % groups_;
    int64_t begin = 0, size = group_size(tiles_);
    for (int64_t round = 0; round < group / team_; ++round) {
      begin += team_ * size;
      size = group_size(tiles_ - begin);
    }
    begin += group % team_ * size;
    const int64_t first_token = chunk * chunk_;
    return {chunk, first_token, tokens_ - first_token < chunk_ ? tokens_ - first_token : chunk_, begin,
            begin + size < tiles_ ? begin + size : tiles_};
  }

 private:
  static constexpr int64_t kLeastRun = 96 << 10;  // bytes of weights

  int64_t group_size(int64_t left) const {
    const int64_t all = (left + team_ - 1) / team_;
    const int64_t size = all >= 2 * least_ ? left / (2 * team_) : all;
    return ((size < least_ ? least_ : size) + unit_ - 1) / unit_ * unit_;
  }

  int64_t tiles_, chunk_, tokens_, team_, unit_;
  int64_t least_ = 1;
  int64_t groups_ = 0, count_ = 0;
};

// Where a register tile's results go: `lanes` rows of its last tile exist.
struct Place {
  const float* bias;  // of its first row; null: none
  int lanes;
  float* out;
  int64_t out_stride;
};

// The part of the next tile that is fetched during a call, `step` bytes with each block: arithmetic and memory overlap.
struct Ahead {
  const std::byte* at;
  int64_t step;
};

// Asks for the first `count` tiles of a claim at once, where reading weighs: what comes later is asked for on the way.
HR_INLINE void fetch_first(const Claims::Part& part, const WeightView& weight, int64_t tile_bytes, int count) {
  if (part.tokens > kFewTokens) return;
  const std::byte* tiles = weight.data + part.first_tile * tile_bytes;
  for (int64_t line = 0; line < count * tile_bytes; line += 64) prefetch(tiles + line);
}

// The share of the next `bytes` that a call for `count` tokens from `first` fetches in `steps` steps; none where arithmetic bounds.
HR_INLINE Ahead ahead_of(const Claims::Part& part, const std::byte* next, int64_t bytes, int64_t first, int count, int64_t steps) {
  return {next + bytes * first / part.tokens, part.tokens > kFewTokens ? 0 : bytes * count / part.tokens / steps};
}

// Of `tiles` tiles from tile `n`; `out` is each call's to set.
HR_INLINE Place place_of(const WeightView& weight, const float* bias, int64_t n, int64_t tiles, int64_t out_stride) {
  const int64_t rows_left = weight.rows - (n + tiles - 1) * kTileRows;
  return {bias == nullptr ? nullptr : bias + n * kTileRows, static_cast<int>(rows_left < kTileRows ? rows_left : kTileRows), nullptr,
          out_stride};
}

// Tokens of a chunk: as many as fit kChunkBytes at `token_bytes` each, in whole register tiles, 1..64 of these.
inline constexpr int64_t kChunkBytes = 192 << 10;
HR_INLINE int64_t chunk_tokens_for(int64_t token_bytes, int register_tokens) {
  int64_t count = kChunkBytes / (token_bytes + 1) / register_tokens;
  if (count < 1) count = 1;
  if (count > 64) count = 64;
  return count * register_tokens;
}

// Calls f(first, count) for parts of at most `most` tokens, as even as possible: 16 with most 12 is 8 + 8.
template <class F>
HR_INLINE void even_parts(int64_t tokens, int most, F&& f) {
  const int64_t parts = (tokens + most - 1) / most;
  int64_t first = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t end = tokens * (part + 1) / parts;
    f(first, static_cast<int>(end - first));
    first = end;
  }
}

HR_END_KERNELS
