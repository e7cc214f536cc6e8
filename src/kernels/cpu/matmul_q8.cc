// matmul with 8-bit activations and block-quantized weights: integer dot products of 32 elements, then one float
// multiply-add a block (two for formats with a minimum).
//
// A register tile is 16 rows x up to kTokens tokens. Weights are read as they lie in tile16, a mask and a shift away from
// u8 x s8 dot products, and each unpacked word serves all tokens of the tile. Activations of a chunk of tokens are packed
// once per thread and chunk, so that one pointer reaches all operands of a block. A result's order is in ops/matmul.h: it
// depends on K alone. Few tokens: bound by reading the weights. Many: per block and 16 x 1 outputs 8 dot products
// and 2 (with a minimum 3) multiplies on the same ports, so at most 80% (73%) of the int8 peak.
#include "kernels/cpu/matmul_tile.h"
#include "ops/matmul.h"

HR_BEGIN_KERNELS
namespace {

HR_INLINE int32_t load_word(const int8_t* q) {
  int32_t word;
  __builtin_memcpy(&word, q, 4);
  return word;
}

// A Dot accumulates sum over four codes of code * q in each lane, exactly. prepare() is what tokens share; kZero is the code
// that means 0 after prepare(), whose part in the sum the caller takes out through finish()'s argument.
#if defined(HEADRACE_ISA_AVX512)
constexpr int kTokens = 12;  // 12 integer and 12 float accumulators of 32 registers

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
};
#elif defined(HEADRACE_ISA_AVX2)
constexpr int kTokens = 4;  // 8 of 16 registers hold integer sums; float ones live in L1 between blocks

// Left alone, the compiler turns the chain of integer sums into a tree and spills its leaves.
HR_INLINE void keep_order(__m256i& a, __m256i& b) { asm("" : "+x"(a), "+x"(b)); }

// 4-bit codes: a pair's products reach 2 * 15 * 127, so all 8 words of a block fit 16-bit sums (30,480 at most).
template <class Tile>
struct Dot {
  static constexpr int kZero = Tile::kZero;
  __m256i a, b;
  HR_INLINE static I32x16 prepare(const I32x16& codes) { return codes; }
  HR_INLINE void start(int32_t) { a = b = _mm256_setzero_si256(); }
  HR_INLINE void add(const I32x16& codes, const int8_t* q) {
    const __m256i word = _mm256_set1_epi32(load_word(q));
    a = _mm256_add_epi16(a, _mm256_maddubs_epi16(codes.a, word));
    b = _mm256_add_epi16(b, _mm256_maddubs_epi16(codes.b, word));
    keep_order(a, b);
  }
  HR_INLINE F32x16 finish(int32_t correction) const {
    const __m256i ones = _mm256_set1_epi16(1);
    return to_f32(I32x16{_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones)} + broadcast(correction));
  }
};

// Signed 8-bit codes: |w| * (q with w's sign), pairs at most 2 * 128 * 127 = 32,512, widened at once.
template <>
struct Dot<TileQ8_0> {
  static constexpr int kZero = 0;
  struct Prepared {
    I32x16 codes, magnitudes;
  };
  __m256i a, b;
  HR_INLINE static Prepared prepare(const I32x16& biased) {
    const __m256i flip = _mm256_set1_epi8(static_cast<char>(0x80));
    const I32x16 codes{_mm256_xor_si256(biased.a, flip), _mm256_xor_si256(biased.b, flip)};
    return {codes, {_mm256_abs_epi8(codes.a), _mm256_abs_epi8(codes.b)}};
  }
  HR_INLINE void start(int32_t) { a = b = _mm256_setzero_si256(); }
  HR_INLINE void add(const Prepared& w, const int8_t* q) {
    const __m256i word = _mm256_set1_epi32(load_word(q));
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i low = _mm256_maddubs_epi16(w.magnitudes.a, _mm256_sign_epi8(word, w.codes.a));
    const __m256i high = _mm256_maddubs_epi16(w.magnitudes.b, _mm256_sign_epi8(word, w.codes.b));
    a = _mm256_add_epi32(a, _mm256_madd_epi16(low, ones));
    b = _mm256_add_epi32(b, _mm256_madd_epi16(high, ones));
    keep_order(a, b);
  }
  HR_INLINE F32x16 finish(int32_t) const { return to_f32(I32x16{a, b}); }
};
#else
constexpr int kTokens = 2;

// In float: all values are integers below 2^24 (32 * 255 * 127), so every step is exact.
template <class Tile>
struct Dot {
  static constexpr int kZero = Tile::kZero;
  struct Prepared {
    F32x16 codes[4];
  };
  F32x16 sum;
  HR_INLINE static Prepared prepare(const I32x16& word) {
    return {{unsigned_byte<0>(word), unsigned_byte<8>(word), unsigned_byte<16>(word), unsigned_byte<24>(word)}};
  }
  HR_INLINE void start(int32_t correction) { sum = broadcast(static_cast<float>(correction)); }
  HR_INLINE void add(const Prepared& w, const int8_t* q) {
    for (int i = 0; i < 4; ++i) sum = sum + w.codes[i] * broadcast(static_cast<float>(q[i]));
  }
  HR_INLINE F32x16 finish(int32_t) const { return sum; }
};
#endif

// Packed activations of kCount tokens, per block: codes [kCount][32], scales f32 [kCount], then 32 bits [kCount]: for
// formats with a minimum the float scale * sum, else the integer -kZero * sum.
constexpr int64_t kTokenBlockBytes = ops::kActivationBlock + 8;

template <class T>
HR_INLINE T load_as(const std::byte* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}

template <class Tile, int kCount>
void multiply(const std::byte* tile, const std::byte* x, int64_t blocks, F32x16 bias, int lanes, float* out,
              int64_t out_stride) {
  using D = Dot<Tile>;
  constexpr int kScales = 32 * kCount, kLast = kScales + 4 * kCount;
  F32x16 acc[kCount];
#pragma GCC unroll 12
  for (int t = 0; t < kCount; ++t) acc[t] = zero_f32();
  for (int64_t block = 0; block < blocks; ++block, tile += Tile::kBytes, x += kTokenBlockBytes * kCount) {
    const int8_t* q = reinterpret_cast<const int8_t*>(x);
    D dot[kCount];
#pragma GCC unroll 12
    for (int t = 0; t < kCount; ++t) {
      dot[t].start(Tile::kHasMin ? 0 : load_as<int32_t>(x + kLast + 4 * t));
    }
    if constexpr (Tile::kNibbles) {
      const I32x16 mask = broadcast(0x0F0F0F0F);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const I32x16 word = load_i32(tile + Tile::kCodes + 64 * i);
        const auto low = D::prepare(word & mask);
#pragma GCC unroll 12
        for (int t = 0; t < kCount; ++t) dot[t].add(low, q + 32 * t + 4 * i);
        const auto high = D::prepare(shift_right<4>(word) & mask);
#pragma GCC unroll 12
        for (int t = 0; t < kCount; ++t) dot[t].add(high, q + 32 * t + 16 + 4 * i);
      }
    } else {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        const auto codes = D::prepare(load_i32(tile + Tile::kCodes + 64 * i));
#pragma GCC unroll 12
        for (int t = 0; t < kCount; ++t) dot[t].add(codes, q + 32 * t + 4 * i);
      }
    }
    const F32x16 scale = Tile::scale(tile);
#pragma GCC unroll 12
    for (int t = 0; t < kCount; ++t) {
      const F32x16 value = dot[t].finish(Tile::kHasMin ? 0 : load_as<int32_t>(x + kLast + 4 * t));
      acc[t] = fma(value, scale * broadcast(load_as<float>(x + kScales + 4 * t)), acc[t]);
    }
    if constexpr (Tile::kHasMin) {
      const F32x16 min = Tile::min(tile);
#pragma GCC unroll 12
      for (int t = 0; t < kCount; ++t) acc[t] = fma(min, broadcast(load_as<float>(x + kLast + 4 * t)), acc[t]);
    }
  }
#pragma GCC unroll 12
  for (int t = 0; t < kCount; ++t) store_first(out + t * out_stride, acc[t] + bias, lanes);
}

using Multiply = void (*)(const std::byte*, const std::byte*, int64_t, F32x16, int, float*, int64_t);

template <class Tile>
struct Multiplies {
  Multiply by_count[kTokens + 1] = {};
  constexpr Multiplies() { fill<kTokens>(); }
  template <int kCount>
  constexpr void fill() {
    by_count[kCount] = multiply<Tile, kCount>;
    if constexpr (kCount > 1) fill<kCount - 1>();
  }
};

struct Reader {
  const Multiply* by_count = nullptr;
  bool has_min = false;
  int zero = 0;
};
template <class Tile>
Reader reader() {
  static constexpr Multiplies<Tile> kTable;
  return {kTable.by_count, Tile::kHasMin, Dot<Tile>::kZero};
}
Reader reader_of(Format format) {
  switch (format) {
    case Format::q4_0: return reader<TileQ4_0>();
    case Format::q4_1: return reader<TileQ4_1>();
    case Format::q8_0: return reader<TileQ8_0>();
    default: return {};
  }
}

void pack(const NodeArgs& args, int64_t first, int count, const Reader& read, std::byte* out) {
  const TensorView& codes = args.inputs[0].tensor;
  const int64_t blocks = codes.dim(1) / ops::kActivationBlock;
  for (int t = 0; t < count; ++t) {
    const int8_t* q = codes.row<int8_t>(first + t);
    const float* scales = args.inputs[1].tensor.row<float>(first + t);
    const int32_t* sums = args.inputs[2].tensor.row<int32_t>(first + t);
    std::byte* to = out;
    for (int64_t block = 0; block < blocks; ++block, to += kTokenBlockBytes * count) {
      __builtin_memcpy(to + 32 * t, q + 32 * block, 32);
      __builtin_memcpy(to + 32 * count + 4 * t, scales + block, 4);
      std::byte* last = to + 36 * count + 4 * t;
      if (read.has_min) {
        const float offset = scales[block] * static_cast<float>(sums[block]);
        __builtin_memcpy(last, &offset, 4);
      } else {
        const int32_t correction = -read.zero * sums[block];
        __builtin_memcpy(last, &correction, 4);
      }
    }
  }
}

int64_t token_bytes(int64_t columns) { return columns / ops::kActivationBlock * kTokenBlockBytes; }

int64_t packed_bytes(int64_t columns) {
  return (chunk_tokens_for(token_bytes(columns), kTokens) * token_bytes(columns) + 63) / 64 * 64;
}

size_t scratch_bytes(const NodeSizes& sizes, int team_size) {
  return static_cast<size_t>(team_size * packed_bytes(sizes.inputs[0].shape[1].eval(sizes.bindings)));
}

bool supports(std::span<const ValueType> inputs, std::span<const ValueType>, const Attrs&) {
  return reader_of(inputs[3].format).by_count != nullptr;
}

void run_matmul_q8(const StepContext&, const NodeArgs& args, Team& team) {
  const WeightView& weight = args.inputs[3].weight;
  const float* bias = args.inputs.size() > 4 ? reinterpret_cast<const float*>(args.inputs[4].weight.data) : nullptr;
  const TensorView& out = args.outputs[0].tensor;
  const int64_t tokens = args.inputs[0].tensor.dim(0), columns = args.inputs[0].tensor.dim(1);
  const int64_t tile_bytes = static_cast<int64_t>(tile16_bytes(weight.format, columns));
  const int64_t chunk = chunk_tokens_for(token_bytes(columns), kTokens);
  const Claims claims(tokens, weight.rows, tile_bytes, chunk, team.size());
  const Reader read = reader_of(weight.format);
  std::byte* packed = args.scratch + team.rank() * packed_bytes(columns);
  int64_t packed_chunk = -1;

  for (int64_t claim; (claim = team.claim(claims.count)) >= 0;) {
    const int64_t first_token = claim / claims.groups * chunk;
    const int64_t count = tokens - first_token < chunk ? tokens - first_token : chunk;
    if (claim / claims.groups != packed_chunk) {
      packed_chunk = claim / claims.groups;
      even_parts(count, kTokens, [&](int64_t first, int part) {
        pack(args, first_token + first, part, read, packed + first * token_bytes(columns));
      });
    }
    const int64_t first_tile = claim % claims.groups * claims.group_tiles;
    for (int64_t n = first_tile; n < first_tile + claims.group_tiles && n < claims.tiles; ++n) {
      const int64_t row = n * kTileRows;
      const int lanes = static_cast<int>(weight.rows - row < kTileRows ? weight.rows - row : kTileRows);
      const F32x16 bias_lanes = bias == nullptr ? zero_f32() : load_first(bias + row, lanes);
      even_parts(count, kTokens, [&](int64_t first, int part) {
        read.by_count[part](weight.data + n * tile_bytes, packed + first * token_bytes(columns),
                            columns / ops::kActivationBlock, bias_lanes, lanes,
                            out.row<float>(first_token + first) + row, out.strides[0]);
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
