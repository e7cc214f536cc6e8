// attention where keys and values bound it: they are read once for a tile of 16 query rows, at the speed of memory.
//
// The unit of work is a chunk of kAttentionChunk keys for one tile of one kv head of one sequence. All units stand in one line, and each
// block takes an equal piece of it, however contexts are spread over the batch. Within a block every warp copies blocks of 16 tokens of
// its own into a ring in shared memory, kStages - 1 ahead, past the ends of chunks and tiles; scores them on the tensor cores; and keeps
// a softmax of its own, which is joined with the other warps' at the end of the chunk.
//
// Chunks are joined in rising order, first within groups of kGroupChunks (at absolute multiples), then group after group. A tile that
// one block sees whole is finished there. Where a line's cut goes through a tile, each side leaves its partials in scratch memory: whole
// groups as one, chunks of a group that is cut one by one; and a second kernel joins them in the same order with the same roundings.
// So a row's bits depend neither on the cuts nor on the batch.
#include "kernels/cuda/attention_split.h"

#include <algorithm>

#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/attention_split.cuh"

namespace headrace::cuda {
namespace split {
namespace {

template <int kDim>
struct Shared {
  alignas(128) std::byte ring[kWarps][Tile<kDim>::kStages][2 * Tile<kDim>::kSideBytes];  // keys, values of a block
  alignas(128) std::byte queries[2][Tile<kDim>::kSideBytes];                             // of this tile and the next
  alignas(16) float partial[kWarps][kRowsAtOnce][Tile<kDim>::kPartialStride];
  float2 sums[kWarps][kTileRows];  // maximum and sum
};

// ---- copies -------------------------------------------------------------------------------------

// A warp's way through the blocks of its piece of the line, kStages - 1 ahead of the arithmetic.
template <int kDim>
struct Fetcher {
  using T = Tile<kDim>;
  Cursor at;
  int units_left;  // this one included
  int slot = 0, stage = 0, queries_of = 0;
  bool new_tile = true;
  int block_id = 0;  // lane i: of slot i
  int begin = 0, end = 0;

  // Copies what the next slot of the ring is for, and ends the group: an empty one past the end of the piece.
  __device__ void next(const AttentionShape& shape, const Arguments& in, Shared<kDim>& shared) {
    if (units_left > 0) {
      if (slot == 0) begin_unit(shape, in, shared);
      copy_block(in, shared);
      if (++slot == kSlotsOfChunk) {
        slot = 0;
        if (--units_left > 0) {
          new_tile = at.ends_tile();
          at.advance(shape, in);
        }
      }
      if (++stage == T::kStages) stage = 0;
    }
    end_copy_group();
  }

 private:
  __device__ void begin_unit(const AttentionShape& shape, const Arguments& in, Shared<kDim>& shared) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    if (new_tile) {
      const TileKeys keys(shape, at);
      begin = keys.begin;
      end = keys.end;
      copy_queries(shape, in, shared.queries[queries_of]);
      queries_of ^= 1;
    }
    const int column = at.chunk * kChunkBlocks + warp + kWarps * (lane % kSlotsOfChunk);
    const bool seen = column * kKvBlockTokens < end && (column + 1) * kKvBlockTokens > begin;
    block_id = seen ? in.sequences.block_table[at.s * in.sequences.table_stride + column] : 0;
  }

  // Of each warp a quarter of the tile's rows; rows past the tile's are zero.
  __device__ void copy_queries(const AttentionShape& shape, const Arguments& in, std::byte* to) const {
    constexpr int kPieces = kDim / kPieceElements, kRowsOfWarp = kTileRows / kWarps;
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, rows = at.rows(shape);
#pragma unroll
    for (int i = lane; i < kRowsOfWarp * kPieces; i += 32) {
      const int row = warp * kRowsOfWarp + i / kPieces, piece = i % kPieces;
      const int number = at.tile * kTileRows + row;
      const bool there = row < rows;
      const int64_t query = at.sequence.first_row + (there ? number / shape.group : 0);
      const int head = at.head * shape.group + (there ? number % shape.group : 0);
      const bf16* from = in.q[query] + head * kDim + piece * kPieceElements;
      if (in.aligned) {
        copy_piece_or_zeros(shared_address(to) + piece_at<kDim>(row, piece), from, there);
      } else {
        auto* elements = reinterpret_cast<bf16*>(to + piece_at<kDim>(row, piece));
        for (int e = 0; e < kPieceElements; ++e) elements[e] = there ? from[e] : bf16(0.0f);
      }
    }
  }

  // Tokens that no row of the tile sees become zeros: what stands there may be anything.
  __device__ void copy_block(const Arguments& in, Shared<kDim>& shared) const {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int32_t block = __shfl_sync(kAllLanes, block_id, slot);
    const int first_token = (at.chunk * kChunkBlocks + warp + kWarps * slot) * kKvBlockTokens;
    if (first_token >= end || first_token + kKvBlockTokens <= begin) return;
    constexpr int kPieces = kDim / kPieceElements;
    const std::byte* from = in.pool.head_of(block, at.head);
    const uint32_t to = shared_address(shared.ring[warp][stage]);
#pragma unroll
    for (int i = 0; i < kKvBlockTokens * kPieces / 32; ++i) {
      const int piece = i * 32 + lane, row = piece / kPieces, token = first_token + row;
      const bool there = token >= begin && token < end;
      const uint32_t place = piece_at<kDim>(row, piece % kPieces);
      copy_piece_or_zeros(to + place, from + piece * kPieceBytes, there);
      copy_piece_or_zeros(to + T::kSideBytes + place, from + T::kSideBytes + piece * kPieceBytes, there);
    }
  }
};

// ---- one warp's softmax over its blocks of a chunk ----------------------------------------------

template <int kDim>
struct WarpSoftmax {
  using T = Tile<kDim>;
  float maximum[2], sum[2];  // of rows lane / 4 and lane / 4 + 8; each lane sums its own columns
  float values[T::kColumns][4];

  __device__ void clear() {
    maximum[0] = maximum[1] = -INFINITY;
    sum[0] = sum[1] = 0;
#pragma unroll
    for (auto& column : values) column[0] = column[1] = column[2] = column[3] = 0;
  }

  // Scores in units of log2, minus infinity where hidden; then weights, and values weighed with them. scores[n]: keys 8 * n ...
  __device__ void take(float (&scores)[2][4], uint32_t values_tile) {
    uint32_t weights[4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& s0 = scores[0][2 * half];
      float& s1 = scores[0][2 * half + 1];
      float& s2 = scores[1][2 * half];
      float& s3 = scores[1][2 * half + 1];
      float peak = fmaxf(fmaxf(s0, s1), fmaxf(s2, s3));
      peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 1));
      peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 2));
      const float now = fmaxf(maximum[half], peak), anchor = anchor_of(now);
      const float before = exp2_of(maximum[half] - anchor);
      maximum[half] = now;
      s0 = exp2_of(s0 - anchor);
      s1 = exp2_of(s1 - anchor);
      s2 = exp2_of(s2 - anchor);
      s3 = exp2_of(s3 - anchor);
      sum[half] = __fmaf_rn(sum[half], before, (s0 + s1) + (s2 + s3));
#pragma unroll
      for (auto& column : values) {
        column[2 * half] *= before;
        column[2 * half + 1] *= before;
      }
      weights[half] = pack_bf16(s0, s1);
      weights[2 + half] = pack_bf16(s2, s3);
    }
#pragma unroll
    for (int n = 0; n < T::kColumns / 2; ++n) {
      uint32_t right[4];
      load_values<kDim>(right, values_tile, 0, n);
      multiply_add(values[2 * n], weights, right[0], right[1]);
      multiply_add(values[2 * n + 1], weights, right[2], right[3]);
    }
  }
};

// Scores of 16 keys, all in units of log2: hidden ones are minus infinity.
struct Scorer {
  float factor, cap, exponent;
  int window;
  __device__ explicit Scorer(const AttentionShape& shape)
      : factor(shape.softcap > 0 ? shape.scale : shape.scale * kLog2E),
        cap(shape.softcap),
        exponent(2.0f * kLog2E / shape.softcap),
        window(shape.window) {}

  __device__ void finish(float (&scores)[2][4], int first_key, const int (&positions)[2], bool all_seen) const {
#pragma unroll
    for (auto& column : scores) {
#pragma unroll
      for (float& score : column) score = __fmul_rn(score, factor);  // never fused: hidden neighbours change no bit
    }
    if (cap > 0) {
#pragma unroll
      for (auto& column : scores) {
#pragma unroll
        for (float& score : column) score = __fmul_rn(capped(score, cap, exponent), kLog2E);
      }
    }
    if (all_seen) return;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first_key + n * 8 + int(threadIdx.x) % 4 * 2 + i % 2, position = positions[i / 2];
        if (key > position || key < first_seen(position, window)) scores[n][i] = -INFINITY;
      }
    }
  }
};

// ---- partials of a tile ------------------------------------------------------------------------

// A block's partials of the tile under way: of finished groups, and of the group under way. Warp w holds rows w, w + kRowsAtOnce, ...
template <int kDim>
struct TilePartials {
  Partial<kDim> groups[kPasses], group[kPasses];
  Stretch stretch;
  int next_slot;

  __device__ void begin_tile(const Cursor& at) {
    stretch = {at.chunk, at.begins_tile()};
    next_slot = kFirstLaterSlot;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) groups[pass] = group[pass] = Partial<kDim>();
  }

  // Before the partial of chunk `at` is taken: a group ends where the next begins.
  __device__ void begin_chunk(const Arguments& in, const Cursor& at, int rows) {
    if (at.chunk % kGroupChunks != 0 || at.chunk == stretch.begin || stretch.is_loose(at.chunk - 1)) return;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      if (pass * kRowsAtOnce >= rows) break;
      if (stretch.first) {
        groups[pass].join(group[pass]);
      } else {
        group[pass].store(slot_at<kDim>(in, int(blockIdx.x), next_slot), row_of(pass));
      }
      group[pass] = Partial<kDim>();
    }
    next_slot += !stretch.first;
  }

  __device__ void take(const Arguments& in, const Cursor& at, int pass, const Partial<kDim>& chunk) {
    if (stretch.is_loose(at.chunk)) {
      chunk.store(slot_at<kDim>(in, int(blockIdx.x), next_slot), row_of(pass));
    } else {
      group[pass].join(chunk);
    }
  }
  __device__ void end_chunk(const Cursor& at) { next_slot += stretch.is_loose(at.chunk); }

  // After the last chunk of the tile, or of this block's piece.
  __device__ void end_tile(const AttentionShape& shape, const Arguments& in, const Cursor& at, int rows) {
    const bool loose = stretch.is_loose(at.chunk);
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      if (pass * kRowsAtOnce >= rows) break;
      const int row = row_of(pass);
      if (!stretch.first) {
        if (!loose) group[pass].store(slot_at<kDim>(in, int(blockIdx.x), next_slot), row);
      } else if (!at.ends_tile()) {
        groups[pass].store(slot_at<kDim>(in, int(blockIdx.x), 0), row);
        group[pass].store(slot_at<kDim>(in, int(blockIdx.x), 1), row);
      } else {
        groups[pass].join(group[pass]);
        if (row < rows) groups[pass].write(shape, in, at, row);
      }
    }
  }

 private:
  static __device__ int row_of(int pass) { return pass * kRowsAtOnce + int(threadIdx.x) / 32; }
};

// ---- the kernel ---------------------------------------------------------------------------------

template <int kDim>
struct Worker {
  using T = Tile<kDim>;
  const AttentionShape& shape;
  const Arguments& in;
  Shared<kDim>& shared;
  const Scorer scorer;
  Fetcher<kDim> fetcher;
  Cursor at;
  WarpSoftmax<kDim> softmax;
  TilePartials<kDim> partials;
  uint32_t queries[T::kQueryInRegisters ? T::kSteps : 1][4];
  uint32_t queries_tile = 0;
  int positions[2];
  int stage = 0, queries_of = 0;

  __device__ Worker(const AttentionShape& the_shape, const Arguments& arguments, Shared<kDim>& memory, const Cursor& first, int units)
      : shape(the_shape), in(arguments), shared(memory), scorer(the_shape), fetcher{.at = first, .units_left = units}, at(first) {}

  __device__ void run(int units) {
    for (int i = 0; i < T::kStages - 1; ++i) fetcher.next(shape, in, shared);
    bool new_tile = true;
    for (int left = units; left > 0; --left) {
      wait_for_copies<T::kStages - 2>();
      if (new_tile) begin_tile();
      take_chunk();
      new_tile = at.ends_tile();
      if (new_tile || left == 1) partials.end_tile(shape, in, at, at.rows(shape));
      if (left > 1) at.advance(shape, in);
    }
  }

 private:
  __device__ void begin_tile() {
    __syncthreads();  // every warp's part of the queries is there, and the tile before is done
    queries_tile = shared_address(shared.queries[queries_of]);
    queries_of ^= 1;
    if constexpr (T::kQueryInRegisters) {
#pragma unroll
      for (int k = 0; k < T::kSteps; ++k) load_left<kDim>(queries[k], queries_tile, 0, k);
    }
    const int row = int(threadIdx.x) % 32 / 4;
    positions[0] = at.position(shape, row);
    positions[1] = at.position(shape, row + 8);
    partials.begin_tile(at);
  }

  __device__ void take_chunk() {
    const TileKeys keys(shape, at);
    const int warp = int(threadIdx.x) / 32;
    softmax.clear();
#pragma unroll 1
    for (int slot = 0; slot < kSlotsOfChunk; ++slot) {
      if (slot > 0) wait_for_copies<T::kStages - 2>();
      __syncwarp();
      fetcher.next(shape, in, shared);
      const int first_key = (at.chunk * kChunkBlocks + warp + kWarps * slot) * kKvBlockTokens;
      if (first_key < keys.end && first_key + kKvBlockTokens > keys.begin) {
        take_block(first_key, first_key >= keys.all_begin && first_key + kKvBlockTokens <= keys.all_end);
      }
      if (++stage == T::kStages) stage = 0;
    }
    const int first_key = at.chunk * ops::kAttentionChunk;
    join_warps(first_key < keys.end && first_key + ops::kAttentionChunk > keys.begin);
  }

  __device__ void take_block(int first_key, bool all_seen) {
    const uint32_t keys_tile = shared_address(shared.ring[int(threadIdx.x) / 32][stage]);
    float scores[2][4] = {};
#pragma unroll
    for (int k = 0; k < T::kSteps; ++k) {
      uint32_t right[4];
      load_keys<kDim>(right, keys_tile, 0, k);
      if constexpr (T::kQueryInRegisters) {
        multiply_add(scores[0], queries[k], right[0], right[1]);
        multiply_add(scores[1], queries[k], right[2], right[3]);
      } else {
        load_left<kDim>(queries[0], queries_tile, 0, k);
        multiply_add(scores[0], queries[0], right[0], right[1]);
        multiply_add(scores[1], queries[0], right[2], right[3]);
      }
    }
    scorer.finish(scores, first_key, positions, all_seen);
    softmax.take(scores, keys_tile + T::kSideBytes);
  }

  // The warps' softmaxes of the chunk become one, kRowsAtOnce rows at a time: each warp joins one row of all. A chunk that no row
  // of the tile sees counts as nothing.
  __device__ void join_warps(bool seen) {
    const int rows = at.rows(shape);
#pragma unroll
    for (float& sum : softmax.sum) {
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
    }
    partials.begin_chunk(in, at, rows);
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      if (pass * kRowsAtOnce >= rows) break;
      if (!seen) {
        partials.take(in, at, pass, Partial<kDim>());
        continue;
      }
      __syncthreads();  // the pass before has been read
      show_rows(pass);
      __syncthreads();
      partials.take(in, at, pass, joined_row(pass * kRowsAtOnce + int(threadIdx.x) / 32));
    }
    partials.end_chunk(at);
  }

  // This warp's softmax of the pass's rows, for all warps to see.
  __device__ void show_rows(int pass) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int half = pass * kRowsAtOnce / 8;  // of the tile's rows, as fragments have them
    if (lane / 4 / kRowsAtOnce != pass * kRowsAtOnce % 8 / kRowsAtOnce) return;
    float* row = shared.partial[warp][lane / 4 % kRowsAtOnce];
#pragma unroll
    for (int n = 0; n < T::kColumns; ++n) {
      *reinterpret_cast<float2*>(row + 8 * n + lane % 4 * 2) = make_float2(softmax.values[n][2 * half], softmax.values[n][2 * half + 1]);
    }
    if (lane % 4 == 0) shared.sums[warp][half * 8 + lane / 4] = make_float2(softmax.maximum[half], softmax.sum[half]);
  }

  __device__ Partial<kDim> joined_row(int row) const {
    Partial<kDim> joined;
    for (int other = 0; other < kWarps; ++other) joined.maximum = fmaxf(joined.maximum, shared.sums[other][row].x);
    const float anchor = anchor_of(joined.maximum);
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      const float factor = exp2_of(shared.sums[other][row].x - anchor);
      joined.sum = __fmaf_rn(shared.sums[other][row].y, factor, joined.sum);
      const float* values = shared.partial[other][row % kRowsAtOnce] + int(threadIdx.x) % 32 * T::kLaneElements;
      constexpr int kAtOnce = T::kLaneElements < 4 ? T::kLaneElements : 4;
#pragma unroll
      for (int i = 0; i < T::kLaneElements; i += kAtOnce) {
        const Pack<float, kAtOnce> pack = load_pack<kAtOnce>(values + i);
#pragma unroll
        for (int e = 0; e < kAtOnce; ++e) joined.values[i + e] = __fmaf_rn(pack.values[e], factor, joined.values[i + e]);
      }
    }
    return joined;
  }
};

template <int kDim>
__global__ void __launch_bounds__(kThreads, Tile<kDim>::kBlocksOfSm)
    split_kernel(const __grid_constant__ AttentionShape shape, const __grid_constant__ Arguments in) {
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kDim>*>(memory);
  // The step's inputs were copied before its first kernel: no kernel of the step writes them.
  auto& index = *reinterpret_cast<Index*>(shared.partial);
  const Units units{shape, in};
  const Pieces pieces(index.fill(in.sequences.count, units), int(gridDim.x));
  const int block = int(blockIdx.x);
  Cursor first{};
  if (block < pieces.blocks) first.seek(shape, in, index.find(in.sequences.count, units, pieces.begin(block)), pieces.begin(block));
  begin_step_kernel();
  if (block >= pieces.blocks) return;
  const int count = pieces.begin(block + 1) - pieces.begin(block);
  Worker<kDim>(shape, in, shared, first, count).run(count);
}

// ---- launches -----------------------------------------------------------------------------------

// What the step's dims allow at most.
struct Bounds {
  int64_t grid, slots_of_block;
};
template <int kDim>
Bounds bounds_of(int64_t tokens, int64_t sequences, int64_t columns, const ops::AttentionAttrs& attrs) {
  const int64_t group = attrs.heads / attrs.kv_heads, chunks = std::max<int64_t>(1, (columns + kChunkBlocks - 1) / kChunkBlocks);
  const int64_t tiles = tokens * group / kTileRows + std::min(tokens, sequences);
  const int64_t units = std::max<int64_t>(1, tiles * attrs.kv_heads * chunks);
  const int64_t grid = std::min<int64_t>(Tile<kDim>::kGrid, units);
  const int64_t of_piece = (units + grid - 1) / grid + 1, of_tile = kGroupChunks + chunks / kGroupChunks + 2;
  return {grid, kFirstLaterSlot + std::min(of_piece, of_tile)};
}

template <class Use>
auto dispatch_dim(int head_dim, Use use) {
  switch (head_dim) {
    case 64: return use.template operator()<64>();
    case 128: return use.template operator()<128>();
    default: return use.template operator()<256>();
  }
}

template <int kDim>
void launch_split(const StepContext& step, const NodeArgs& args, bool every) {
  const auto& attrs = args.attrs.as<ops::AttentionAttrs>();
  const TensorView& q = args.inputs[0].tensor;
  const TensorView& out = args.outputs[0].tensor;
  const TensorView& table = args.inputs[4].tensor;
  const Bounds bounds = bounds_of<kDim>(q.dims[0], table.dims[0], table.dims[1], attrs);
  const AttentionShape shape = shape_of(attrs);
  const Arguments in{.q = rows_of<const bf16>(q),
                     .out = rows_of<bf16>(out),
                     .pool = pool_of(args.inputs[1].kv),
                     .sequences = sequences_of(args),
                     .every = every,
                     .aligned = packs_of(kPieceElements, q, kDim) && packs_of(4, out, kDim),
                     .slots = reinterpret_cast<float*>(args.scratch),
                     .slots_of_block = int(bounds.slots_of_block)};
  allow_shared<split_kernel<kDim>>(current_device(), sizeof(Shared<kDim>));
  const auto grid = unsigned(bounds.grid);
  launch(split_kernel<kDim>, grid, kThreads, sizeof(Shared<kDim>), stream_of(step), shape, in);
  launch_join(shape, in, grid, stream_of(step));
}

}  // namespace
}  // namespace split

void launch_attention_split(const StepContext& step, const NodeArgs& args, bool every) {
  split::dispatch_dim(args.attrs.as<ops::AttentionAttrs>().head_dim, [&]<int kDim>() { split::launch_split<kDim>(step, args, every); });
}

size_t attention_split_scratch(const NodeSizes& sizes, int) {
  const auto& attrs = sizes.attrs.as<ops::AttentionAttrs>();
  const auto dim = [&](int input, int axis) { return sizes.inputs[input].shape[axis].eval(sizes.bindings); };
  return split::dispatch_dim(attrs.head_dim, [&]<int kDim>() {
    const split::Bounds bounds = split::bounds_of<kDim>(dim(0, 0), dim(4, 0), dim(4, 1), attrs);
    return size_t(bounds.grid * bounds.slots_of_block) * split::Tile<kDim>::kSlotFloats * sizeof(float);
  });
}

}  // namespace headrace::cuda
