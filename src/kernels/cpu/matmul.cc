// matmul with float32 activations: the --exact path and plain-float weights.
//
// A register tile is 16 rows x up to kTokens tokens; lane r accumulates acc = fma(w, x, acc) over rising columns, from
// zero, whatever the number of tokens or threads: that is the whole order of a result. Few tokens: weights are decoded
// where they are used, bound by reading them (once a step). Many tokens: a tile is decoded once per chunk of tokens
// into a float panel of K x 16 (36 KB for K = 576) and reused from L1/L2, bound by the multiply-adds.
#include "ops/matmul.h"

#include "kernels/cpu/matmul_tile.h"

HR_BEGIN_KERNELS
namespace {

#if defined(HEADRACE_ISA_AVX512)
constexpr int kTokens = 12;  // 12 accumulators hide 4 cycles at one or two a cycle and leave room for weights
#elif defined(HEADRACE_ISA_AVX2)
constexpr int kTokens = 6;  // 12 of 16 registers are accumulators
#else
constexpr int kTokens = 2;
#endif
constexpr int64_t kPanelTokens = 2 * kTokens + 1;  // from here on a decoded panel pays

// x is packed [padded columns][kCount]; out rows are `out_stride` apart.
template <class Tile, int kCount>
void multiply(const std::byte* tile, const float* x, int64_t columns, F32x16 bias, int lanes, float* out,
              int64_t out_stride) {
  F32x16 acc[kCount];
#pragma GCC unroll 12
  for (int t = 0; t < kCount; ++t) acc[t] = zero_f32();
  for (int64_t k = 0; k < columns; k += Tile::kColumns) {
    prefetch(tile + 2048);
    Tile::columns(tile, [&](int column, const F32x16& w) HR_INLINE_LAMBDA {
#pragma GCC unroll 12
      for (int t = 0; t < kCount; ++t) acc[t] = fma(w, broadcast(x[column * kCount + t]), acc[t]);
    });
    tile += Tile::kBytes;
    x += Tile::kColumns * kCount;
  }
#pragma GCC unroll 12
  for (int t = 0; t < kCount; ++t) store_first(out + t * out_stride, acc[t] + bias, lanes);
}

using Multiply = void (*)(const std::byte*, const float*, int64_t, F32x16, int, float*, int64_t);

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

template <class Tile>
void decode_panel(const std::byte* tile, int64_t columns, float* panel) {
  for (int64_t k = 0; k < columns; k += Tile::kColumns, tile += Tile::kBytes) {
    Tile::columns(tile, [&](int column, const F32x16& w) HR_INLINE_LAMBDA { store(panel + (k + column) * kTileRows, w); });
  }
}
void decode_any_panel(Format format, const std::byte* tile, int64_t columns, float* panel) {
  decode_tile16_panel(format, columns, tile, 0, columns, panel);
}

// What a format needs: direct register tiles (null where only the portable decode exists) and a panel decoder.
struct Reader {
  const Multiply* direct = nullptr;
  void (*panel)(const std::byte*, int64_t, float*) = nullptr;
};
template <class Tile>
Reader reader() {
  static constexpr Multiplies<Tile> kTable;
  return {kTable.by_count, decode_panel<Tile>};
}
Reader reader_of(Format format) {
  switch (format) {
    case Format::f32: return reader<TileF32>();
    case Format::f16: return reader<TileF16>();
    case Format::bf16: return reader<TileBf16>();
    case Format::q4_0: return reader<TileQ4_0>();
    case Format::q4_1: return reader<TileQ4_1>();
    case Format::q8_0: return reader<TileQ8_0>();
    default: return {};
  }
}

// Columns rounded up to whole pairs: what bf16 tiles and packed activations hold.
int64_t padded(int64_t columns) { return (columns + 1) / 2 * 2; }
int64_t align64(int64_t bytes) { return (bytes + 63) / 64 * 64; }
int64_t packed_bytes(int64_t columns) {
  return align64(chunk_tokens_for(columns * 4, kTokens) * padded(columns) * static_cast<int64_t>(sizeof(float)));
}
int64_t panel_bytes(int64_t columns) { return padded(columns) * kTileRows * static_cast<int64_t>(sizeof(float)); }

// Tokens [first, first + count) of x as [columns][count], padding zero.
void pack(const TensorView& x, int64_t first, int count, float* out) {
  const int64_t columns = x.dim(1);
  for (int t = 0; t < count; ++t) {
    const float* row = x.row<float>(first + t);
    float* to = out + t;
    for (int64_t k = 0; k < columns; ++k) to[k * count] = row[k];
    if (columns % 2 != 0) to[columns * count] = 0.0f;
  }
}

size_t scratch_bytes(const NodeSizes& sizes, int team_size) {
  const int64_t columns = sizes.inputs[0].shape[1].eval(sizes.bindings);
  return static_cast<size_t>(team_size * (packed_bytes(columns) + panel_bytes(columns)));
}

void run_matmul(const StepContext&, const NodeArgs& args, Team& team) {
  const TensorView& x = args.inputs[0].tensor;
  const WeightView& weight = args.inputs[1].weight;
  const float* bias = args.inputs.size() > 2 ? reinterpret_cast<const float*>(args.inputs[2].weight.data) : nullptr;
  const TensorView& out = args.outputs[0].tensor;
  const int64_t tokens = x.dim(0), columns = x.dim(1);
  const int64_t tile_bytes = static_cast<int64_t>(tile16_bytes(weight.format, columns));
  const int64_t chunk = chunk_tokens_for(columns * 4, kTokens);
  const Claims claims(tokens, weight.rows, tile_bytes, chunk, team.size());

  std::byte* mine = args.scratch + team.rank() * (packed_bytes(columns) + panel_bytes(columns));
  float* packed = reinterpret_cast<float*>(mine);
  float* panel = reinterpret_cast<float*>(mine + packed_bytes(columns));
  const Reader read = reader_of(weight.format);
  const Reader plain = reader<TileF32>();
  int64_t packed_chunk = -1;

  for (int64_t claim; (claim = team.claim(claims.count())) >= 0;) {
    const Claims::Part part = claims.part(claim);
    if (part.chunk != packed_chunk) {
      packed_chunk = part.chunk;
      even_parts(part.tokens, kTokens, [&](int64_t first, int count) {
        pack(x, part.first_token + first, count, packed + first * padded(columns));
      });
    }
    for (int64_t n = part.first_tile; n < part.end_tile; ++n) {
      const std::byte* tile = weight.data + n * tile_bytes;
      const int64_t row = n * kTileRows;
      const int lanes = static_cast<int>(weight.rows - row < kTileRows ? weight.rows - row : kTileRows);
      const F32x16 bias_lanes = bias == nullptr ? zero_f32() : load_first(bias + row, lanes);
      const Multiply* by_count = read.direct;
      if (read.direct == nullptr) {
        decode_any_panel(weight.format, tile, columns, panel);
      } else if (part.tokens >= kPanelTokens && weight.format != Format::f32) {
        read.panel(tile, columns, panel);
        by_count = nullptr;
      }
      if (by_count == nullptr) {
        tile = reinterpret_cast<const std::byte*>(panel);
        by_count = plain.direct;
      }
      even_parts(part.tokens, kTokens, [&](int64_t first, int count) {
        by_count[count](tile, packed + first * padded(columns), columns, bias_lanes, lanes,
                       out.row<float>(part.first_token + first) + row, out.strides[0]);
      });
    }
  }
}

constexpr Kernel kMatmul[] = {{.op = &ops::matmul,
                               .name = "tile16",
                               .isa = kIsa,
                               .priority = 10 * static_cast<int>(kIsa),
                               .layout = WeightLayout::tile16,
                               .scratch_bytes = scratch_bytes,
                               .run = run_matmul}};

}  // namespace
const KernelList kernels_matmul = {kMatmul, 1};
HR_END_KERNELS
