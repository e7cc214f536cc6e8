#pragma once
// What the split kernel (attention_split.cu) and the kernel that joins cut tiles (attention_join.cu) share: the line of units and its
// pieces, partial softmaxes of whole rows, and where they lie in scratch memory.

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_mma.cuh"

namespace headrace::cuda::split {

using bf16 = __nv_bfloat16;

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kTileRows = 16;
constexpr int kRowsAtOnce = kWarps;  // rows of a tile that are joined over the warps in one pass: one a warp
constexpr int kPasses = kTileRows / kRowsAtOnce;
constexpr int kChunkBlocks = ops::kAttentionChunk / kKvBlockTokens;
constexpr int kSlotsOfChunk = kChunkBlocks / kWarps;  // a warp's blocks of a chunk
constexpr int kGroupChunks = 16;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr int kMultiprocessors = 132;

// 227 KiB of shared memory: two blocks an SM, one for the widest heads. At 4.5 TB/s an SM receives 20 bytes a cycle, so 64 KiB on the
// way cover 3000 cycles, several times the latency.
template <int kDim>
struct Tile {
  static constexpr int kBlocksOfSm = kDim > 128 ? 1 : 2;
  static constexpr int kStages = kDim == 64 ? 5 : 3;
  static constexpr int kSideBytes = kKvBlockTokens * kDim * 2;
  static constexpr int kSteps = kDim / 16;              // of the products' inner dimension
  static constexpr int kColumns = kDim / 8;             // tiles of eight columns
  static constexpr int kLaneElements = kDim / 32;       // of a row that a warp holds
  static constexpr bool kQueryInRegisters = kDim <= 128;
  static constexpr int kPartialStride = kDim + 4;       // floats
  static constexpr int kGrid = kBlocksOfSm * kMultiprocessors;
  static constexpr int kSlotFloats = kTileRows * (kDim + 2);
  static_assert(kStages - 1 <= kSlotsOfChunk, "queries are copied two tiles ahead at most");
};

struct Arguments {
  RowsOf<const bf16> q;
  RowsOf<bf16> out;
  KvPool pool;
  Sequences sequences;
  bool every;    // sequence, whatever its rows
  bool aligned;  // rows of q begin at multiples of 16 bytes, those of out at multiples of 4 elements
  float* slots;
  int slots_of_block;
};

using Index = WorkIndex<kThreads>;

// ---- the line of units --------------------------------------------------------------------------

// The tiles of a sequence have equal numbers of units: the chunks that any of its rows sees.
struct Extent {
  int tiles, first_chunk, chunks;
};
__device__ inline Extent extent_of(const AttentionShape& shape, const Sequence& sequence, bool every) {
  if (sequence.queries <= 0 || !(every || has_few_rows(sequence.queries, shape.group))) return {0, 0, 0};
  const int first = first_seen(sequence.context - sequence.queries, shape.window) / ops::kAttentionChunk;
  const int last = (sequence.context - 1) / ops::kAttentionChunk;
  return {(sequence.queries * shape.group + kTileRows - 1) / kTileRows, first, last - first + 1};
}

struct Units {
  const AttentionShape& shape;
  const Arguments& in;
  __device__ int operator()(int s) const {
    const Extent extent = extent_of(shape, sequence_of(in.sequences, s), in.every);
    return extent.tiles * extent.chunks * shape.kv_heads;
  }
};

// Equal pieces of the line: the first `longer` blocks take one unit more.
struct Pieces {
  int blocks, each, longer;
  __device__ Pieces(int units, int grid)
      : blocks(min(grid, units)), each(blocks == 0 ? 0 : units / blocks), longer(units - each * blocks) {}
  __device__ int begin(int block) const { return block * each + min(block, longer); }
  __device__ int block_of(int unit) const {
    const int long_units = longer * (each + 1);
    return unit < long_units ? unit / (each + 1) : longer + (unit - long_units) / each;
  }
};

// A place in the line.
struct Cursor {
  Sequence sequence;
  Extent extent;
  int s, head, tile, chunk;

  __device__ void load(const AttentionShape& shape, const Arguments& in) {
    sequence = sequence_of(in.sequences, s);
    extent = extent_of(shape, sequence, in.every);
  }
  __device__ void seek(const AttentionShape& shape, const Arguments& in, Index::Place place, int unit) {
    s = place.sequence;
    load(shape, in);
    const int rest = unit - place.before;
    chunk = extent.first_chunk + rest % extent.chunks;
    tile = rest / extent.chunks % extent.tiles;
    head = rest / extent.chunks / extent.tiles;
  }
  // To a unit that there is.
  __device__ void advance(const AttentionShape& shape, const Arguments& in) {
    if (++chunk < extent.first_chunk + extent.chunks) return;
    if (++tile == extent.tiles) {
      tile = 0;
      if (++head == shape.kv_heads) {
        head = 0;
        do {
          ++s;
          load(shape, in);
        } while (extent.tiles == 0);
      }
    }
    chunk = extent.first_chunk;
  }
  __device__ bool begins_tile() const { return chunk == extent.first_chunk; }
  __device__ bool ends_tile() const { return chunk == extent.first_chunk + extent.chunks - 1; }
  __device__ int rows(const AttentionShape& shape) const { return min(kTileRows, sequence.queries * shape.group - tile * kTileRows); }
  // Of a row of the tile, or of one past its end.
  __device__ int position(const AttentionShape& shape, int row) const {
    return sequence.context - sequence.queries + (tile * kTileRows + row) / shape.group;
  }
};

// The keys that any row of a tile sees, [begin, end), and those that every row sees, [all_begin, all_end).
struct TileKeys {
  int begin, end, all_begin, all_end;
  __device__ TileKeys(const AttentionShape& shape, const Cursor& at) {
    const int first = at.position(shape, 0), last = at.position(shape, at.rows(shape) - 1);
    begin = first_seen(first, shape.window);
    end = last + 1;
    all_begin = first_seen(last, shape.window);
    all_end = first + 1;
  }
};

// ---- partials of whole rows ---------------------------------------------------------------------

// One row of a tile: a warp holds it, each lane kLaneElements neighbours of its values.
template <int kDim>
struct Partial {
  static constexpr int kElements = Tile<kDim>::kLaneElements;
  float maximum = -INFINITY;
  float sum = 0;
  float values[kElements] = {};

  __device__ void join(const Partial& right) {
    const Join join(maximum, right.maximum);
    maximum = join.maximum;
    sum = join.of(sum, right.sum);
#pragma unroll
    for (int i = 0; i < kElements; ++i) values[i] = join.of(values[i], right.values[i]);
  }

  // In a slot: [kTileRows][kDim] values, [kTileRows] maxima, [kTileRows] sums.
  __device__ void store(float* slot, int row) const {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kElements; i += 2) {
      *reinterpret_cast<float2*>(slot + row * kDim + lane * kElements + i) = make_float2(values[i], values[i + 1]);
    }
    if (lane != 0) return;
    slot[kTileRows * kDim + row] = maximum;
    slot[kTileRows * kDim + kTileRows + row] = sum;
  }
  __device__ void load(const float* slot, int row) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kElements; i += 2) {
      const float2 pair = *reinterpret_cast<const float2*>(slot + row * kDim + lane * kElements + i);
      values[i] = pair.x;
      values[i + 1] = pair.y;
    }
    maximum = slot[kTileRows * kDim + row];
    sum = slot[kTileRows * kDim + kTileRows + row];
  }

  // The output row: with the sink as one more score, over the sum.
  __device__ void write(const AttentionShape& shape, const Arguments& in, const Cursor& at, int row) const {
    const int number = at.tile * kTileRows + row, head = at.head * shape.group + number % shape.group;
    float factor = 1.0f, total = sum;
    if (shape.has_sinks) {
      const float sink = shape.sinks[head] * kLog2E, peak = fmaxf(maximum, sink);
      factor = exp2_of(maximum - peak);
      total = __fmaf_rn(sum, factor, exp2_of(sink - peak));
    }
    bf16* to = in.out[at.sequence.first_row + number / shape.group] + head * kDim + int(threadIdx.x) % 32 * kElements;
    const float inverse = __fdividef(factor, total);
#pragma unroll
    for (int i = 0; i < kElements; i += 2) {
      const uint32_t pair = pack_bf16(values[i] * inverse, values[i + 1] * inverse);
      if (in.aligned) {
        *reinterpret_cast<uint32_t*>(to + i) = pair;
      } else {
        to[i] = __ushort_as_bfloat16(uint16_t(pair));
        to[i + 1] = __ushort_as_bfloat16(uint16_t(pair >> 16));
      }
    }
  }
};

// Slots of a block: two for a tile that begins in its piece and is cut at its end, the finished groups and the one under way; then
// those of a tile that began in an earlier block's.
constexpr int kFirstLaterSlot = 2;

template <int kDim>
__device__ float* slot_at(const Arguments& in, int block, int slot) {
  return in.slots + (int64_t(block) * in.slots_of_block + slot) * Tile<kDim>::kSlotFloats;
}

// Chunks of a group whose beginning another block has: each stays by itself.
struct Stretch {
  int begin;   // the first chunk of the tile in this block's piece
  bool first;  // it is the tile's first
  __device__ bool is_loose(int chunk) const { return !first && begin % kGroupChunks != 0 && chunk / kGroupChunks == begin / kGroupChunks; }
};

// Joins the tiles that a cut goes through, of a split kernel with `grid` blocks before it in the stream.
void launch_join(const AttentionShape& shape, const Arguments& in, unsigned grid, cudaStream_t stream);

}  // namespace headrace::cuda::split
