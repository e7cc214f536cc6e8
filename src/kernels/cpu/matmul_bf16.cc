// matmul_bf16. A register tile is one or two tiles of 16 rows x up to kTokens tokens; activations are read as they
// lie, a pair of columns broadcast from each token's row, and serve both tiles. Few tokens: bound by reading the weights.
// Many: on AVX-512 one load in two dot products, so bound by arithmetic. Elsewhere pairs are widened: a reference for machines
// without the instruction, whose graphs keep float32 activations.
#include "core/half.h"
#include "kernels/cpu/matmul_tile.h"
#include "ops/matmul.h"

HR_BEGIN_KERNELS
namespace {

#if defined(HEADRACE_ISA_AVX512)
constexpr int kTokens = 12;  // with two tiles 24 accumulators, two words of weights and one of activations
HR_INLINE F32x16 dot_pairs(const F32x16& sum, const I32x16& w, const I32x16& x) {
  return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(w.v), reinterpret_cast<__m512bh>(x.v))};
}
#else
constexpr int kTokens = 2;
HR_INLINE F32x16 dot_pairs(const F32x16& sum, const I32x16& w, const I32x16& x) {
  return fma(bf16_second(w), bf16_second(x), fma(bf16_first(w), bf16_first(x), sum));
}
#endif

constexpr int kTilesAtOnce = 2;
constexpr int64_t kPairsAtOnce = 16;  // between two looks at what to fetch

HR_INLINE I32x16 broadcast_pair(const std::byte* x) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  return broadcast(pair);
}

template <int kTiles, int kCount>
void multiply(const std::byte* tile, int64_t tile_bytes, const std::byte* x, int64_t x_stride, int64_t pairs, const Place& place,
              Ahead ahead) {
  F32x16 acc[kTiles][kCount];
#pragma GCC unroll 2
  for (int i = 0; i < kTiles; ++i) {
#pragma GCC unroll 12
    for (int t = 0; t < kCount; ++t) acc[i][t] = zero_f32();
  }
  for (int64_t pair = 0; pair < pairs; ahead.at += ahead.step) {
    for (int64_t line = 0; line < ahead.step; line += 64) prefetch(ahead.at + line);
    const int64_t end = pairs - pair < kPairsAtOnce ? pairs : pair + kPairsAtOnce;
    for (; pair < end; ++pair, tile += 64, x += 4) {
      I32x16 w[kTiles];
#pragma GCC unroll 2
      for (int i = 0; i < kTiles; ++i) w[i] = load_i32(tile + i * tile_bytes);
#pragma GCC unroll 12
      for (int t = 0; t < kCount; ++t) {
        const I32x16 token = broadcast_pair(x + t * x_stride);
#pragma GCC unroll 2
        for (int i = 0; i < kTiles; ++i) acc[i][t] = dot_pairs(acc[i][t], w[i], token);
      }
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < kTiles; ++i) {
    const int lanes = i + 1 < kTiles ? kTileRows : place.lanes;
    const F32x16 bias = place.bias == nullptr ? zero_f32() : load_first(place.bias + i * kTileRows, lanes);
#pragma GCC unroll 12
    for (int t = 0; t < kCount; ++t) {
      store_first(place.out + t * place.out_stride + i * kTileRows, acc[i][t] + bias, lanes);
    }
  }
}

using Multiply = void (*)(const std::byte*, int64_t, const std::byte*, int64_t, int64_t, const Place&, Ahead);

template <int kTiles>
struct Multiplies {
  Multiply by_count[kTokens + 1] = {};
  constexpr Multiplies() { fill<kTokens>(); }
  template <int kCount>
  constexpr void fill() {
    by_count[kCount] = multiply<kTiles, kCount>;
    if constexpr (kCount > 1) fill<kCount - 1>();
  }
};
constexpr Multiplies<1> kOneTile;
constexpr Multiplies<kTilesAtOnce> kTwoTiles;

void run_matmul_bf16(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const WeightView& weight = args.inputs[1].weight;
  const float* bias = args.inputs.size() > 2 ? reinterpret_cast<const float*>(args.inputs[2].weight.data) : nullptr;
  const TensorView& out = args.outputs[0].tensor;
  const int64_t tokens = x.dim(0), columns = x.dim(1), pairs = columns / 2;
  const int64_t tile_bytes = static_cast<int64_t>(tile16_bytes(Format::bf16, columns));
  const int64_t x_stride = x.strides[0] * static_cast<int64_t>(sizeof(bf16));
  const Claims claims(tokens, weight.rows, tile_bytes, chunk_tokens_for(columns * 2, kTokens), team.size(), kTilesAtOnce);

  for (int64_t claim; (claim = team.claim(claims.count())) >= 0;) {
    const Claims::Part part = claims.part(claim);
    fetch_first(part, weight, tile_bytes, kTilesAtOnce);
    for (int64_t n = part.first_tile, next; n < part.end_tile; n = next) {
      next = n + kTilesAtOnce <= part.end_tile ? n + kTilesAtOnce : n + 1;
      const int64_t bytes = (next - n) * tile_bytes;
      const std::byte* tile = weight.data + n * tile_bytes;
      Place place = place_of(weight, bias, n, next - n, out.strides[0]);
      even_parts(part.tokens, kTokens, [&](int64_t first, int count) {
        place.out = out.row<float>(part.first_token + first) + n * kTileRows;
        const Multiply* by_count = next - n == kTilesAtOnce ? kTwoTiles.by_count : kOneTile.by_count;
        by_count[count](tile, tile_bytes, reinterpret_cast<const std::byte*>(x.row<bf16>(part.first_token + first)), x_stride,
                        pairs, place,
                        ahead_of(part, tile + bytes, bytes, first, count, (pairs + kPairsAtOnce - 1) / kPairsAtOnce));
      });
    }
  }
}

// Its sums are floats, and so are its outputs.
bool supports_bf16(std::span<const ValueType>, std::span<const ValueType> outputs, const Attrs&) {
  return outputs[0].dtype == DType::f32;
}

constexpr Kernel kMatmulBf16{.op = &ops::matmul_bf16,
                             .name = "tile16",
                             .isa = kIsa,
                             .priority = kIsaPriority,
                             .layout = WeightLayout::tile16,
                             .supports = supports_bf16,
                             .run = run_matmul_bf16};

}  // namespace
const KernelList kernels_matmul_bf16 = {&kMatmulBf16, 1};
HR_END_KERNELS
