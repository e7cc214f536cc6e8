// matmul with 8-bit activations and block-quantized weights: integer dot products of 32 elements, then one float
// multiply-add a block (two for formats with a minimum).
//
// A register tile is one or two tiles of 16 rows x up to kTokens tokens. Weights are read as they lie in tile16, a mask and a
// shift away from u8 x s8 dot products; an unpacked word serves all tokens, a word of activations both tiles. Activations of
// a chunk of tokens are packed once per thread and chunk, so that one pointer reaches all operands of a block. A result's order
// is in ops/matmul.h: it depends on K alone. Few tokens: bound by reading the weights. Many: per block and 16 x 1 outputs 8 dot
// products and 2 (with a minimum 3) multiplies on the same ports, so at most 80% (73%) of the int8 peak.
//
// Formats whose fields lie otherwise (5 and 6 bits, scales of scales) are widened first, a tile at a time: wide_tile.h.
//
// Two terms of activations: the same block twice, 256 * sum of the first + sum of the second in int32. The largest is
// that of q8_0's biased codes, 257 * 32 * 255 * 127 = 2.7e8, and the correction half of it.
#include "kernels/cpu/matmul_tile.h"
#include "kernels/cpu/wide_tile.h"
#include "ops/matmul.h"

HR_BEGIN_KERNELS
namespace {

HR_INLINE int32_t load_word(const int8_t* q) {
  int32_t word;
  __builtin_memcpy(&word, q, 4);
  return word;
}

// A Dot accumulates sum over four codes of code * q in each lane, exactly. prepare() is what tokens share; kZero is the code
// that means 0 after prepare(), whose part in the sum the caller takes out through start() and finish(). With two terms it
// calls start(0), adds the first, next_term() with the correction, adds the second, finish_terms().
#if defined(HEADRACE_ISA_AVX512)
constexpr int kTokens = 6, kTilesAtOnce = 2;  // 12 integer and 12 float accumulators of 32 registers

template <class Tile>
struct Dot {
  static constexpr int kZero = Tile::kZero;
  __m512i sum;
  HR_INLINE static I32x16 prepare(const I32x16& codes) { return codes; }
  HR_INLINE void start(int32_t correction) { sum = _mm512_set1_epi32(correction); }
  HR_INLINE void add(const I32x16& codes, const int8_t* q) {
    sum = _mm512_dpbusd_epi32(sum, codes.v, _mm512_set1_epi32(load_word(q)));
  }
  HR_INLINE F32x16 finish(int32_t) const { return {_mm512_cvtepi32_ps(sum)}; }
  HR_INLINE void next_term(int32_t correction) {
    sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), _mm512_set1_epi32(correction));
  }
  HR_INLINE F32x16 finish_terms() const { return {_mm512_cvtepi32_ps(sum)}; }
};
#elif defined(HEADRACE_ISA_AVX2)
constexpr int kTokens = 4, kTilesAtOnce = 1;  // 8 of 16 registers hold integer sums; float ones live in L1 between blocks

// Left alone, the compiler turns the chain of integer sums into a tree and spills its leaves.
HR_INLINE void keep_order(__m256i& a, __m256i& b) { asm("" : "+x"(a), "+x"(b)); }

// 4-bit codes: a pair's products reach 2 * 15 * 127, so all 8 words of a block fit 16-bit sums (30,480 at most).
template <class Tile>
struct Dot {
  static constexpr int kZero = Tile::kZero;
  __m256i a, b;
  I32x16 first;  // two terms
  HR_INLINE static I32x16 prepare(const I32x16& codes) { return codes; }
  HR_INLINE void start(int32_t) { a = b = _mm256_setzero_si256(); }
  HR_INLINE void add(const I32x16& codes, const int8_t* q) {
    const __m256i word = _mm256_set1_epi32(load_word(q));
    a = _mm256_add_epi16(a, _mm256_maddubs_epi16(codes.a, word));
    b = _mm256_add_epi16(b, _mm256_maddubs_epi16(codes.b, word));
    keep_order(a, b);
  }
  HR_INLINE I32x16 wide() const {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones)};
  }
  HR_INLINE F32x16 finish(int32_t correction) const { return to_f32(wide() + broadcast(correction)); }
  HR_INLINE void next_term(int32_t correction) {
    first = shift_left<8>(wide()) + broadcast(correction);
    start(0);
  }
  HR_INLINE F32x16 finish_terms() const { return to_f32(first + wide()); }
};

// Codes whose pairs fill 16 bits: each word's products are widened at once.
struct WideSums {
  __m256i a, b;
  HR_INLINE void start(int32_t) { a = b = _mm256_setzero_si256(); }
  HR_INLINE void add_pairs(const __m256i& low, const __m256i& high) {
    const __m256i ones = _mm256_set1_epi16(1);
    a = _mm256_add_epi32(a, _mm256_madd_epi16(low, ones));
    b = _mm256_add_epi32(b, _mm256_madd_epi16(high, ones));
    keep_order(a, b);
  }
  HR_INLINE F32x16 finish(int32_t) const { return to_f32(I32x16{a, b}); }
  HR_INLINE void next_term(int32_t) {
    a = _mm256_slli_epi32(a, 8);
    b = _mm256_slli_epi32(b, 8);
  }
  HR_INLINE F32x16 finish_terms() const { return to_f32(I32x16{a, b}); }
};

// Signed 8-bit codes: |w| * (q with w's sign), pairs at most 2 * 128 * 127 = 32,512.
template <>
struct Dot<TileQ8_0> : WideSums {
  static constexpr int kZero = 0;
  struct Prepared {
    I32x16 codes, magnitudes;
  };
  HR_INLINE static Prepared prepare(const I32x16& biased) {
    const __m256i flip = _mm256_set1_epi8(static_cast<char>(0x80));
    const I32x16 codes{_mm256_xor_si256(biased.a, flip), _mm256_xor_si256(biased.b, flip)};
    return {codes, {_mm256_abs_epi8(codes.a), _mm256_abs_epi8(codes.b)}};
  }
  HR_INLINE void add(const Prepared& w, const int8_t* q) {
    const __m256i word = _mm256_set1_epi32(load_word(q));
    add_pairs(_mm256_maddubs_epi16(w.magnitudes.a, _mm256_sign_epi8(word, w.codes.a)),
              _mm256_maddubs_epi16(w.magnitudes.b, _mm256_sign_epi8(word, w.codes.b)));
  }
};

// Unsigned codes up to 63: eight words of pairs, 2 * 63 * 127 each, do not fit 16 bits.
template <int kGroups>
struct Dot<TileWide<kGroups>> : WideSums {
  static constexpr int kZero = 0;
  HR_INLINE static I32x16 prepare(const I32x16& codes) { return codes; }
  HR_INLINE void add(const I32x16& codes, const int8_t* q) {
    const __m256i word = _mm256_set1_epi32(load_word(q));
    add_pairs(_mm256_maddubs_epi16(codes.a, word), _mm256_maddubs_epi16(codes.b, word));
  }
};
#else
constexpr int kTokens = 2, kTilesAtOnce = 1;

// In float: all values are integers below 2^24 (32 * 255 * 127), so every step is exact.
template <class Tile>
struct Dot {
  static constexpr int kZero = Tile::kZero;
  struct Prepared {
    F32x16 codes[4];
  };
  F32x16 sum;
  I32x16 first;  // two terms: a sum of products has 21 bits, 256 times it more than a float holds
  HR_INLINE static Prepared prepare(const I32x16& word) {
    return {{unsigned_byte<0>(word), unsigned_byte<8>(word), unsigned_byte<16>(word), unsigned_byte<24>(word)}};
  }
  HR_INLINE void start(int32_t correction) { sum = broadcast(static_cast<float>(correction)); }
  HR_INLINE void add(const Prepared& w, const int8_t* q) {
    for (int i = 0; i < 4; ++i) sum = sum + w.codes[i] * broadcast(static_cast<float>(q[i]));
  }
  HR_INLINE F32x16 finish(int32_t) const { return sum; }
  HR_INLINE void next_term(int32_t correction) {
    first = shift_left<8>(round_to_i32(sum)) + broadcast(correction);
    start(0);
  }
  HR_INLINE F32x16 finish_terms() const { return to_f32(first + round_to_i32(sum)); }
};
#endif

// Packed activations of kCount tokens, per block: codes [kCount][terms][32], scales f32 [kCount], then 32 bits [groups][kCount]:
// for formats with a minimum the float scale * sum (of the group's columns), else the integer -kZero * sum.
constexpr int64_t token_block_bytes(int terms, int groups) { return ops::kActivationBlock * terms + 4 + 4 * groups; }

template <class T>
HR_INLINE T load_as(const std::byte* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}

// Adds the products of a block's weights, or of its half `kGroup`, with one term of each token, `q_stride` bytes apart.
template <class Tile, int kGroup, int kTiles, int kCount>
HR_INLINE void add_products(const std::byte* tile, int64_t tile_bytes, const int8_t* q, int q_stride,
                            Dot<Tile> (&dot)[kCount][kTiles]) {
  using D = Dot<Tile>;
  using Prepared = decltype(D::prepare(zero_i32()));
  const auto add = [&](const Prepared(&codes)[kTiles], int at) HR_INLINE_LAMBDA {
#pragma GCC unroll 12
    for (int t = 0; t < kCount; ++t) {
#pragma GCC unroll 2
      for (int i = 0; i < kTiles; ++i) dot[t][i].add(codes[i], q + q_stride * t + at);
    }
  };
  Prepared codes[kTiles];
  if constexpr (Tile::kNibbles) {
    const I32x16 mask = broadcast(0x0F0F0F0F);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      I32x16 word[kTiles];
#pragma GCC unroll 2
      for (int i = 0; i < kTiles; ++i) {
        word[i] = load_i32(tile + i * tile_bytes + Tile::kCodes + 64 * k);
        codes[i] = D::prepare(word[i] & mask);
      }
      add(codes, 4 * k);
#pragma GCC unroll 2
      for (int i = 0; i < kTiles; ++i) codes[i] = D::prepare(shift_right<4>(word[i]) & mask);
      add(codes, 16 + 4 * k);
    }
  } else {
    constexpr int kWords = 8 / Tile::kGroups;
#pragma GCC unroll 8
    for (int k = kGroup * kWords; k < (kGroup + 1) * kWords; ++k) {
#pragma GCC unroll 2
      for (int i = 0; i < kTiles; ++i) codes[i] = D::prepare(load_i32(tile + i * tile_bytes + Tile::kCodes + 64 * k));
      add(codes, 4 * k);
    }
  }
}

// One group of a block: acc += scale * (dot + min).
template <class Tile, int kGroup, int kTerms, int kTiles, int kCount>
HR_INLINE void add_group(const std::byte* tile, int64_t tile_bytes, const std::byte* x, F32x16 (&acc)[kCount][kTiles]) {
  constexpr int kQStride = ops::kActivationBlock * kTerms, kScales = kQStride * kCount,
                kLast = kScales + 4 * kCount * (1 + kGroup);
  const int8_t* q = reinterpret_cast<const int8_t*>(x);
  const auto each = [&](auto&& f) HR_INLINE_LAMBDA {
#pragma GCC unroll 12
    for (int t = 0; t < kCount; ++t) {
#pragma GCC unroll 2
      for (int i = 0; i < kTiles; ++i) f(t, i);
    }
  };
  const auto correction = [&](int t) HR_INLINE_LAMBDA { return Tile::kHasMin ? 0 : load_as<int32_t>(x + kLast + 4 * t); };
  Dot<Tile> dot[kCount][kTiles];
  each([&](int t, int i) HR_INLINE_LAMBDA { dot[t][i].start(kTerms == 2 ? 0 : correction(t)); });
  add_products<Tile, kGroup, kTiles, kCount>(tile, tile_bytes, q, kQStride, dot);
  if constexpr (kTerms == 2) {
    each([&](int t, int i) HR_INLINE_LAMBDA { dot[t][i].next_term(correction(t)); });
    add_products<Tile, kGroup, kTiles, kCount>(tile, tile_bytes, q + ops::kActivationBlock, kQStride, dot);
  }
  F32x16 scale[kTiles], min[kTiles];
#pragma GCC unroll 2
  for (int i = 0; i < kTiles; ++i) {
    scale[i] = Tile::scale(tile + i * tile_bytes, kGroup);
    min[i] = Tile::min(tile + i * tile_bytes, kGroup);
  }
  each([&](int t, int i) HR_INLINE_LAMBDA {
    F32x16 value;
    if constexpr (kTerms == 1) {
      value = dot[t][i].finish(correction(t));
    } else {
      value = dot[t][i].finish_terms();
    }
    acc[t][i] = fma(value, scale[i] * broadcast(load_as<float>(x + kScales + 4 * t)), acc[t][i]);
    if constexpr (Tile::kHasMin) acc[t][i] = fma(min[i], broadcast(load_as<float>(x + kLast + 4 * t)), acc[t][i]);
  });
}

template <class Tile, int kTerms, int kTiles, int kCount>
void multiply(const std::byte* tile, int64_t tile_bytes, const std::byte* x, int64_t blocks, const Place& place, Ahead ahead) {
  F32x16 acc[kCount][kTiles];
#pragma GCC unroll 12
  for (int t = 0; t < kCount; ++t) {
#pragma GCC unroll 2
    for (int i = 0; i < kTiles; ++i) acc[t][i] = zero_f32();
  }
  for (int64_t block = 0; block < blocks;
       ++block, tile += Tile::kBytes, x += token_block_bytes(kTerms, Tile::kGroups) * kCount, ahead.at += ahead.step) {
    for (int64_t line = 0; line < ahead.step; line += 64) prefetch(ahead.at + line);
    add_group<Tile, 0, kTerms>(tile, tile_bytes, x, acc);
    if constexpr (Tile::kGroups == 2) add_group<Tile, 1, kTerms>(tile, tile_bytes, x, acc);
  }
#pragma GCC unroll 2
  for (int i = 0; i < kTiles; ++i) {
    const int lanes = i + 1 < kTiles ? kTileRows : place.lanes;
    const F32x16 bias = place.bias == nullptr ? zero_f32() : load_first(place.bias + i * kTileRows, lanes);
#pragma GCC unroll 12
    for (int t = 0; t < kCount; ++t) store_first(place.out + t * place.out_stride + i * kTileRows, acc[t][i] + bias, lanes);
  }
}

using Multiply = void (*)(const std::byte*, int64_t, const std::byte*, int64_t, const Place&, Ahead);

// By tiles and tokens of a register tile.
template <class Tile, int kTerms>
struct Multiplies {
  Multiply of[kTilesAtOnce + 1][kTokens + 1] = {};
  constexpr Multiplies() {
    fill<1, kTokens>();
    fill<kTilesAtOnce, kTokens>();
  }
  template <int kTiles, int kCount>
  constexpr void fill() {
    of[kTiles][kCount] = multiply<Tile, kTerms, kTiles, kCount>;
    if constexpr (kCount > 1) fill<kTiles, kCount - 1>();
  }
};

// How a weight's tiles are read. With `widen`, they are TileWide in the thread's scratch, `wide_block` bytes a block.
struct Reader {
  const Multiply (*of)[kTokens + 1] = nullptr;  // by tiles and tokens
  bool has_min = false;
  int zero = 0;
  int terms = 1;
  int groups = 1;
  void (*widen)(const std::byte* tile, int64_t blocks, std::byte* out) = nullptr;
  int wide_block = 0;
};
template <class Tile, int kTerms>
Reader reader() {
  static constexpr Multiplies<Tile, kTerms> kTable;
  return {kTable.of, Tile::kHasMin, Dot<Tile>::kZero, kTerms, Tile::kGroups};
}
template <int kGroups, int kTerms>
Reader wide_reader(void (*widen)(const std::byte*, int64_t, std::byte*)) {
  Reader read = reader<TileWide<kGroups>, kTerms>();
  read.widen = widen;
  read.wide_block = TileWide<kGroups>::kBytes;
  return read;
}
template <int kTerms>
Reader reader_of(Format format) {
  switch (format) {
    case Format::q4_0: return reader<TileQ4_0, kTerms>();
    case Format::q4_1: return reader<TileQ4_1, kTerms>();
    case Format::q8_0: return reader<TileQ8_0, kTerms>();
    case Format::q5_0: return wide_reader<1, kTerms>(widen_q5<false>);
    case Format::q5_1: return wide_reader<1, kTerms>(widen_q5<true>);
    case Format::q4_k: return wide_reader<1, kTerms>(widen_k<false>);
    case Format::q5_k: return wide_reader<1, kTerms>(widen_k<true>);
    case Format::q6_k: return wide_reader<2, kTerms>(widen_q6_k);
    default: return {};
  }
}
Reader reader_of(Format format, const Attrs& attrs) {
  return attrs.as<ops::Q8Attrs>().terms == 1 ? reader_of<1>(format) : reader_of<2>(format);
}

// The sum of the codes of columns [0, 16) of a block, the first term's counted 256 times where there are two.
int32_t first_half_sum(const int8_t* q, int terms) {
  int32_t first = 0, second = 0;
  for (int i = 0; i < 16; ++i) first += q[i];
  if (terms == 1) return first;
  for (int i = 0; i < 16; ++i) second += q[ops::kActivationBlock + i];
  return 256 * first + second;
}

template <int kTerms>
void pack(const NodeArgs& args, int64_t first, int count, const Reader& read, std::byte* out) {
  constexpr int64_t kCodeBytes = ops::kActivationBlock * kTerms;
  const TensorView& codes = args.inputs[0].tensor;
  const int64_t blocks = args.inputs[1].tensor.dim(1), block_bytes = token_block_bytes(kTerms, read.groups) * count;
  for (int t = 0; t < count; ++t) {
    const int8_t* q = codes.row<int8_t>(first + t);
    const float* scales = args.inputs[1].tensor.row<float>(first + t);
    const int32_t* sums = args.inputs[2].tensor.row<int32_t>(first + t);
    std::byte* to = out;
    for (int64_t block = 0; block < blocks; ++block, to += block_bytes, q += kCodeBytes) {
      __builtin_memcpy(to + kCodeBytes * t, q, kCodeBytes);
      __builtin_memcpy(to + kCodeBytes * count + 4 * t, scales + block, 4);
      std::byte* last = to + (kCodeBytes + 4) * count + 4 * t;
      if (read.groups == 2) {
        const int32_t half = first_half_sum(q, kTerms);
        const float offsets[2] = {scales[block] * static_cast<float>(half),
                                  scales[block] * static_cast<float>(sums[block] - half)};
        __builtin_memcpy(last, &offsets[0], 4);
        __builtin_memcpy(last + 4 * count, &offsets[1], 4);
      } else if (read.has_min) {
        const float offset = scales[block] * static_cast<float>(sums[block]);
        __builtin_memcpy(last, &offset, 4);
      } else {
        const int32_t correction = -read.zero * sums[block];
        __builtin_memcpy(last, &correction, 4);
      }
    }
  }
}

int64_t packed_bytes(int64_t token_bytes) {
  return (chunk_tokens_for(token_bytes, kTokens) * token_bytes + 63) / 64 * 64;
}

// Of one thread: the packed activations of a chunk, then wide tiles.
int64_t thread_bytes(const Reader& read, int64_t blocks) {
  return packed_bytes(blocks * token_block_bytes(read.terms, read.groups)) + kTilesAtOnce * blocks * read.wide_block;
}

size_t scratch_bytes(const NodeSizes& sizes, int team_size) {
  const Reader read = reader_of(sizes.inputs[3].format, sizes.attrs);
  return static_cast<size_t>(team_size * thread_bytes(read, sizes.inputs[1].shape[1].eval(sizes.bindings)));
}

bool supports(std::span<const ValueType> inputs, std::span<const ValueType>, const Attrs& attrs) {
  return reader_of(inputs[3].format, attrs).of != nullptr;
}

void run_matmul_q8(const StepContext&, const NodeArgs& args, Team& team) {
  const WeightView& weight = args.inputs[3].weight;
  const float* bias = args.inputs.size() > 4 ? reinterpret_cast<const float*>(args.inputs[4].weight.data) : nullptr;
  const TensorView& out = args.outputs[0].tensor;
  const Reader read = reader_of(weight.format, args.attrs);
  const int64_t tokens = args.inputs[1].tensor.dim(0), blocks = args.inputs[1].tensor.dim(1);
  const int64_t tile_bytes = static_cast<int64_t>(tile16_bytes(weight.format, blocks * ops::kActivationBlock));
  const int64_t token_bytes = blocks * token_block_bytes(read.terms, read.groups);
  const int64_t chunk = chunk_tokens_for(token_bytes, kTokens);
  const Claims claims(tokens, weight.rows, tile_bytes, chunk, team.size(), kTilesAtOnce);
  std::byte* packed = args.scratch + team.rank() * thread_bytes(read, blocks);
  std::byte* wide = packed + packed_bytes(token_bytes);
  int64_t packed_chunk = -1;

  for (int64_t claim; (claim = team.claim(claims.count())) >= 0;) {
    const Claims::Part part = claims.part(claim);
    fetch_first(part, weight, tile_bytes, kTilesAtOnce);
    if (part.chunk != packed_chunk) {
      packed_chunk = part.chunk;
      even_parts(part.tokens, kTokens, [&](int64_t first, int count) {
        (read.terms == 1 ? pack<1> : pack<2>)(args, part.first_token + first, count, read, packed + first * token_bytes);
      });
    }
    for (int64_t n = part.first_tile, next; n < part.end_tile; n = next) {
      next = n + kTilesAtOnce <= part.end_tile ? n + kTilesAtOnce : n + 1;
      const int64_t bytes = (next - n) * tile_bytes;
      const std::byte* raw = weight.data + n * tile_bytes;
      const std::byte* tile = raw;
      if (read.widen != nullptr) {
        for (int64_t i = 0; i < next - n; ++i) read.widen(raw + i * tile_bytes, blocks, wide + i * blocks * read.wide_block);
        tile = wide;
      }
      Place place = place_of(weight, bias, n, next - n, out.strides[0]);
      even_parts(part.tokens, kTokens, [&](int64_t first, int count) {
        place.out = out.row<float>(part.first_token + first) + n * kTileRows;
        read.of[next - n][count](tile, read.widen == nullptr ? tile_bytes : blocks * read.wide_block, packed + first * token_bytes,
                                 blocks, place,
                                 ahead_of(part, raw + bytes, bytes, first, count, blocks));
      });
    }
  }
}

constexpr Kernel kMatmulQ8[] = {{.op = &ops::matmul_q8,
                                 .name = "tile16",
                                 .isa = kIsa,
                                 .priority = 10 * static_cast<int>(kIsa),
                                 .layout = WeightLayout::tile16,
                                 .supports = supports,
                                 .scratch_bytes = scratch_bytes,
                                 .run = run_matmul_q8}};

}  // namespace
const KernelList kernels_matmul_q8 = {kMatmulQ8, 1};
HR_END_KERNELS
