// attention where operations bind it: FlashAttention-2 (Dao 2023, arXiv:2307.08691) over the paged cache. A block takes a tile of query
// rows of one kv head, all heads of its group together, and goes through the keys that it sees in tiles of 64: scores, online softmax and
// weighted values on the tensor cores, while the next tile of keys and values is on its way.
//
// For head_dim 128: 128 rows, 32 a warp, so that a fragment of keys or values serves two products: with 16 a warp, shared memory would
// bind at about 470 TFLOP/s. 96 KiB of shared memory and 255 registers let two blocks share an SM, one's softmax under the other's
// products. Blocks are as many as fit; each takes every gridDim.x-th tile, longest first, in rounds of alternating direction.
#include "kernels/cuda/attention_flash.h"

#include <algorithm>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_mma.cuh"

namespace headrace::cuda {
namespace {

using bf16 = __nv_bfloat16;

constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr int kMultiprocessors = 132;
constexpr int kTileKeys = 64;
constexpr int kTileBlocks = kTileKeys / kKvBlockTokens;

template <int kDim>
struct Tile {
  static constexpr int kParts = kDim > 128 ? 1 : 2;  // of 16 rows, a warp
  static constexpr int kWarps = kDim > 128 ? 8 : 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocksOfSm = kDim > 128 ? 1 : 2;
  static constexpr int kWarpRows = 16 * kParts;
  static constexpr int kRows = kWarps * kWarpRows;
  static constexpr int kSteps = kDim / 16;
  static constexpr int kColumns = kDim / 8;
  static constexpr int kGrid = kBlocksOfSm * kMultiprocessors;
};

struct Arguments {
  RowsOf<const bf16> q;
  RowsOf<bf16> out;
  KvPool pool;
  Sequences sequences;
  bool aligned;  // rows of q begin at multiples of 16 bytes, those of out at multiples of 4
};

template <int kDim>
struct Units {
  const AttentionShape& shape;
  const Arguments& in;
  __device__ int operator()(int s) const {
    const Sequence sequence = sequence_of(in.sequences, s);
    if (sequence.queries <= 0 || has_few_rows(sequence.queries, shape.group)) return 0;
    return tiles(sequence) * shape.kv_heads;
  }
  __device__ int tiles(const Sequence& sequence) const {
    return (sequence.queries * shape.group + Tile<kDim>::kRows - 1) / Tile<kDim>::kRows;
  }
};

// A tile of rows of one kv head, and the keys that it sees.
struct Work {
  Sequence sequence;
  const int32_t* table;
  int head, first_row, rows;  // rows of the sequence and head, as numbered in attention.cuh
  int begin, end;             // keys that any row sees
  int all_begin, all_end;     // keys that every row sees

  template <int kDim>
  __device__ static Work make(const AttentionShape& shape, const Arguments& in, const Units<kDim>& units, const auto& index, int unit) {
    const auto place = index.find(in.sequences.count, units, unit);
    Work work;
    work.sequence = sequence_of(in.sequences, place.sequence);
    work.table = in.sequences.block_table + place.sequence * in.sequences.table_stride;
    const int rest = unit - place.before;
    work.head = rest % shape.kv_heads;
    work.first_row = (units.tiles(work.sequence) - 1 - rest / shape.kv_heads) * Tile<kDim>::kRows;  // longest first
    work.rows = min(Tile<kDim>::kRows, work.sequence.queries * shape.group - work.first_row);
    const int first = work.position(shape, 0), last = work.position(shape, work.rows - 1);
    work.begin = first_seen(first, shape.window);
    work.end = last + 1;
    work.all_begin = first_seen(last, shape.window);
    work.all_end = first + 1;
    return work;
  }
  __device__ int position(const AttentionShape& shape, int row) const {
    return sequence.context - sequence.queries + (first_row + row) / shape.group;
  }
};

template <int kDim>
struct Shared {
  alignas(128) std::byte queries[Tile<kDim>::kRows * kDim * 2];
  alignas(128) std::byte keys[2][kTileKeys * kDim * 2];
  alignas(128) std::byte values[2][kTileKeys * kDim * 2];
  Work work;
  WorkIndex<Tile<kDim>::kThreads> index;
};

// ---- copies -------------------------------------------------------------------------------------

template <int kDim>
__device__ void copy_queries(const AttentionShape& shape, const Arguments& in, const Work& work, std::byte* to) {
  constexpr int kPieces = kDim / kPieceElements;
  for (int i = int(threadIdx.x); i < Tile<kDim>::kRows * kPieces; i += Tile<kDim>::kThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    const bool there = row < work.rows;
    const int number = work.first_row + (there ? row : 0);
    const bf16* from = in.q[work.sequence.first_row + number / shape.group] + (work.head * shape.group + number % shape.group) * kDim +
                       piece * kPieceElements;
    if (in.aligned) {
      copy_piece_or_zeros(shared_address(to) + piece_at<kDim>(row, piece), from, there);
    } else {
      auto* elements = reinterpret_cast<bf16*>(to + piece_at<kDim>(row, piece));
      for (int e = 0; e < kPieceElements; ++e) elements[e] = there ? from[e] : bf16(0.0f);
    }
  }
}

// The pool's blocks of a tile of keys, read a tile ahead of their copies.
struct BlockIds {
  int32_t of[kTileBlocks];
  __device__ void read(const Work& work, int first_key) {
#pragma unroll
    for (int i = 0; i < kTileBlocks; ++i) {
      const int key = first_key + i * kKvBlockTokens;
      of[i] = key < work.end && key + kKvBlockTokens > work.begin ? work.table[key / kKvBlockTokens] : 0;
    }
  }
};

// Keys and values of a tile; tokens that no row sees become zeros: what stands there may be anything.
template <int kDim>
__device__ void copy_keys_and_values(const Arguments& in, const Work& work, const BlockIds& blocks, int first_key, std::byte* keys,
                                     std::byte* values) {
  constexpr int kPieces = kDim / kPieceElements, kThreads = Tile<kDim>::kThreads;
  constexpr int kSideBytes = kKvBlockTokens * kDim * 2;
  const uint32_t to_keys = shared_address(keys), to_values = shared_address(values);
#pragma unroll
  for (int b = 0; b < kTileBlocks; ++b) {
    const std::byte* from = in.pool.head_of(blocks.of[b], work.head);
#pragma unroll
    for (int i = 0; i < kKvBlockTokens * kPieces / kThreads; ++i) {
      const int piece = i * kThreads + int(threadIdx.x), row = b * kKvBlockTokens + piece / kPieces;
      const int token = first_key + row;
      const bool there = token >= work.begin && token < work.end;
      const uint32_t place = piece_at<kDim>(row, piece % kPieces);
      copy_piece_or_zeros(to_keys + place, from + piece * kPieceBytes, there);
      copy_piece_or_zeros(to_values + place, from + kSideBytes + piece * kPieceBytes, there);
    }
  }
}

// ---- a warp's rows ------------------------------------------------------------------------------

template <int kDim>
struct WarpRows {
  using T = Tile<kDim>;
  static constexpr int kKeyColumns = kTileKeys / 8;
  using Scores = float[T::kParts][kKeyColumns][4];

  float maximum[T::kParts][2], sum[T::kParts][2];  // of rows lane / 4 and lane / 4 + 8 of a part; each lane sums its own columns
  float values[T::kParts][T::kColumns][4];
  int positions[T::kParts][2];

  __device__ void begin(const AttentionShape& shape, const Work& work, int warp) {
#pragma unroll
    for (int part = 0; part < T::kParts; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        maximum[part][half] = -INFINITY;
        sum[part][half] = 0;
        positions[part][half] = work.position(shape, warp * T::kWarpRows + part * 16 + half * 8 + int(threadIdx.x) % 32 / 4);
      }
#pragma unroll
      for (auto& column : values[part]) column[0] = column[1] = column[2] = column[3] = 0;
    }
  }

  // Scores of 64 keys by the tensor cores, not yet scaled.
  __device__ static void score(Scores& scores, uint32_t queries, uint32_t keys, int warp) {
#pragma unroll
    for (auto& part : scores) {
#pragma unroll
      for (auto& column : part) column[0] = column[1] = column[2] = column[3] = 0;
    }
#pragma unroll
    for (int k = 0; k < T::kSteps; ++k) {
      uint32_t left[T::kParts][4];
#pragma unroll
      for (int part = 0; part < T::kParts; ++part) load_left<kDim>(left[part], queries, warp * T::kWarpRows + part * 16, k);
#pragma unroll
      for (int n = 0; n < kKeyColumns / 2; ++n) {
        uint32_t right[4];
        load_keys<kDim>(right, keys, n * 16, k);
#pragma unroll
        for (int part = 0; part < T::kParts; ++part) {
          multiply_add(scores[part][2 * n], left[part], right[0], right[1]);
          multiply_add(scores[part][2 * n + 1], left[part], right[2], right[3]);
        }
      }
    }
  }

  __device__ static void cap(Scores& scores, float scale, float limit) {
    const float exponent = 2.0f * kLog2E * scale / limit;
#pragma unroll
    for (auto& part : scores) {
#pragma unroll
      for (auto& column : part) {
#pragma unroll
        for (float& score : column) score = capped(score, limit, exponent);
      }
    }
  }

  __device__ void hide(Scores& scores, int first_key, int window) const {
    const int lane_key = first_key + int(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int part = 0; part < T::kParts; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int position = positions[part][half], first = first_seen(position, window);
#pragma unroll
        for (int i = 0; i < 2 * kKeyColumns; ++i) {
          const int key = lane_key + i / 2 * 8 + i % 2;
          if (key > position || key < first) scores[part][i / 2][2 * half + i % 2] = -INFINITY;
        }
      }
    }
  }

  // Online softmax: scores become weights; what came before is scaled. `factor` takes scores to units of log2.
  __device__ void weigh(Scores& scores, float factor) {
#pragma unroll
    for (int part = 0; part < T::kParts; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float peak = maximum[part][half];
#pragma unroll
        for (const auto& column : scores[part]) peak = fmaxf(peak, fmaxf(column[2 * half], column[2 * half + 1]));
        peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 1));
        peak = fmaxf(peak, __shfl_xor_sync(kAllLanes, peak, 2));
        const float anchor = anchor_of(peak) * factor;
        const float before = exp2_of(fmaf(maximum[part][half], factor, -anchor));
        maximum[part][half] = peak;
        float total = 0;
#pragma unroll
        for (auto& column : scores[part]) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            column[i] = exp2_of(fmaf(column[i], factor, -anchor));
            total += column[i];
          }
        }
        sum[part][half] = fmaf(sum[part][half], before, total);
#pragma unroll
        for (auto& column : values[part]) {
          column[2 * half] *= before;
          column[2 * half + 1] *= before;
        }
      }
    }
  }

  __device__ void add_values(const Scores& weights, uint32_t tile) {
#pragma unroll
    for (int k = 0; k < kTileKeys / 16; ++k) {
      uint32_t left[T::kParts][4];
#pragma unroll
      for (int part = 0; part < T::kParts; ++part) {
        const auto& first = weights[part][2 * k];
        const auto& second = weights[part][2 * k + 1];
        left[part][0] = pack_bf16(first[0], first[1]);
        left[part][1] = pack_bf16(first[2], first[3]);
        left[part][2] = pack_bf16(second[0], second[1]);
        left[part][3] = pack_bf16(second[2], second[3]);
      }
#pragma unroll
      for (int n = 0; n < T::kColumns / 2; ++n) {
        uint32_t right[4];
        load_values<kDim>(right, tile, k * 16, n);
#pragma unroll
        for (int part = 0; part < T::kParts; ++part) {
          multiply_add(values[part][2 * n], left[part], right[0], right[1]);
          multiply_add(values[part][2 * n + 1], left[part], right[2], right[3]);
        }
      }
    }
  }

  // Output rows. `factor` as in weigh().
  __device__ void write(const AttentionShape& shape, const Arguments& in, const Work& work, int warp, float factor) const {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int part = 0; part < T::kParts; ++part) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float total = sum[part][half];
        total += __shfl_xor_sync(kAllLanes, total, 1);
        total += __shfl_xor_sync(kAllLanes, total, 2);
        const int row = warp * T::kWarpRows + part * 16 + half * 8 + lane / 4;
        if (row >= work.rows) continue;
        const int number = work.first_row + row, head = work.head * shape.group + number % shape.group;
        float inverse = __fdividef(1.0f, total);
        if (shape.has_sinks) {
          const float sink = shape.sinks[head] * kLog2E, seen = maximum[part][half] * factor, peak = fmaxf(seen, sink);
          const float scaled = exp2_of(seen - peak);
          inverse = __fdividef(scaled, fmaf(total, scaled, exp2_of(sink - peak)));
        }
        bf16* to = in.out[work.sequence.first_row + number / shape.group] + head * kDim + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < T::kColumns; ++n) {
          const uint32_t pair = pack_bf16(values[part][n][2 * half] * inverse, values[part][n][2 * half + 1] * inverse);
          if (in.aligned) {
            *reinterpret_cast<uint32_t*>(to + 8 * n) = pair;
          } else {
            to[8 * n] = __ushort_as_bfloat16(uint16_t(pair));
            to[8 * n + 1] = __ushort_as_bfloat16(uint16_t(pair >> 16));
          }
        }
      }
    }
  }
};

// ---- the kernel ---------------------------------------------------------------------------------

template <int kDim>
__device__ void take_tile(const AttentionShape& shape, const Arguments& in, Shared<kDim>& shared) {
  const Work& work = shared.work;
  const int warp = int(threadIdx.x) / 32;
  const bool is_capped = shape.softcap > 0;
  const float factor = is_capped ? kLog2E : shape.scale * kLog2E;
  WarpRows<kDim> rows;
  rows.begin(shape, work, warp);
  BlockIds blocks;
  int first_key = work.begin / kTileKeys * kTileKeys;
  blocks.read(work, first_key);
  copy_queries<kDim>(shape, in, work, shared.queries);
  copy_keys_and_values<kDim>(in, work, blocks, first_key, shared.keys[0], shared.values[0]);
  end_copy_group();
  blocks.read(work, first_key + kTileKeys);
#pragma unroll 1
  for (int stage = 0; first_key < work.end; first_key += kTileKeys, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // this tile is there for all, and all are done with the one before
    if (first_key + kTileKeys < work.end) {
      copy_keys_and_values<kDim>(in, work, blocks, first_key + kTileKeys, shared.keys[stage ^ 1], shared.values[stage ^ 1]);
      blocks.read(work, first_key + 2 * kTileKeys);
    }
    end_copy_group();
    typename WarpRows<kDim>::Scores scores;
    rows.score(scores, shared_address(shared.queries), shared_address(shared.keys[stage]), warp);
    if (is_capped) rows.cap(scores, shape.scale, shape.softcap);
    if (first_key < work.all_begin || first_key + kTileKeys > work.all_end) rows.hide(scores, first_key, shape.window);
    rows.weigh(scores, factor);
    rows.add_values(scores, shared_address(shared.values[stage]));
  }
  rows.write(shape, in, work, warp, factor);
}

template <int kDim>
__global__ void __launch_bounds__(Tile<kDim>::kThreads, Tile<kDim>::kBlocksOfSm)
    flash_kernel(const __grid_constant__ AttentionShape shape, const __grid_constant__ Arguments in) {
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kDim>*>(memory);
  // The step's inputs were copied before its first kernel: no kernel of the step writes them.
  const Units<kDim> units{shape, in};
  const int count = shared.index.fill(in.sequences.count, units);
  begin_step_kernel();
  const int grid = int(gridDim.x);
#pragma unroll 1
  for (int round = 0; round * grid < count; ++round) {
    const int unit = round * grid + (round % 2 == 0 ? int(blockIdx.x) : grid - 1 - int(blockIdx.x));
    if (unit >= count) continue;
    __syncthreads();  // all are done with the tile before
    if (threadIdx.x == 0) shared.work = Work::make<kDim>(shape, in, units, shared.index, unit);
    __syncthreads();
    take_tile<kDim>(shape, in, shared);
  }
}

template <int kDim>
void launch_flash(const StepContext& step, const NodeArgs& args) {
  const AttentionShape shape = shape_of(args.attrs.as<ops::AttentionAttrs>());
  const TensorView& q = args.inputs[0].tensor;
  const TensorView& out = args.outputs[0].tensor;
  const Arguments in{.q = rows_of<const bf16>(q),
                     .out = rows_of<bf16>(out),
                     .pool = pool_of(args.inputs[1].kv),
                     .sequences = sequences_of(args),
                     .aligned = packs_of(kPieceElements, q, kDim) && packs_of(2, out, kDim)};
  const int64_t sequences = std::min(q.dims[0], args.inputs[4].tensor.dims[0]);
  const int64_t tiles = (q.dims[0] * shape.group / Tile<kDim>::kRows + sequences) * shape.kv_heads;
  allow_shared<flash_kernel<kDim>>(current_device(), sizeof(Shared<kDim>));
  launch(flash_kernel<kDim>, unsigned(std::min<int64_t>(tiles, Tile<kDim>::kGrid)), Tile<kDim>::kThreads, sizeof(Shared<kDim>),
         stream_of(step), shape, in);
}

}  // namespace

void launch_attention_flash(const StepContext& step, const NodeArgs& args) {
  switch (args.attrs.as<ops::AttentionAttrs>().head_dim) {
    case 64: return launch_flash<64>(step, args);
    case 128: return launch_flash<128>(step, args);
    default: return launch_flash<256>(step, args);
  }
}

}  // namespace headrace::cuda
