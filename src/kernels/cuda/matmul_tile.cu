// matmul_bf16 for many tokens with the sums of mma.cuh: the row-invariant product of --deterministic. A block makes 128 rows of the weight
// times 64 tokens; its warps stand 4 by 2 and hold 32 x 32 sums each, of the slice that runs and of all before it. Four stages of 64
// columns are copied ahead. Bound by mma.sync and by shared memory alike, eight 16-byte reads for sixteen instructions: some 300 TFLOP/s on
// an H200, less than half of what cuBLASLt does.
#include "kernels/cuda/matmul_tile.h"

#include <algorithm>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/packs.cuh"

namespace headrace::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 128, kTokens = 64;      // of a block
constexpr int kUnits = 2, kTiles = 4;         // of a warp: 32 rows, 32 tokens
constexpr int kStageChunks = 2;
constexpr int kStageColumns = kStageChunks * kChunk;
constexpr int kPieces = kStageColumns / 8;    // of a row in a stage: 128 bytes
constexpr int kRowBytes = kPieces * 16;
constexpr int kStageBytes = (kRows + kTokens) * kRowBytes;
constexpr int kStages = 4;
constexpr int kGroupRows = 16;                // blocks of rows that share tokens while these are in L2

// Where piece `piece` of row `row` lies in its matrix of a stage: neighbouring rows in different halves of the banks.
__device__ int piece_offset(int row, int piece) { return row * kRowBytes + (piece ^ (row % 2 * 4)) * 16; }

// This thread's pieces of rows [first, first + kCount) of a matrix, a stage of columns after the other. Zeros past the last row and the
// last column.
template <int kCount, bool kAligned>
class StageCopy {
 public:
  __device__ StageCopy(RowsOf<const __nv_bfloat16> from, int first, int rows, int columns)
      : left_(columns - piece() * 8), present_(rows - first - int(threadIdx.x) / kPieces), stride_(from.stride),
        from_(from.data + (first + int64_t(threadIdx.x) / kPieces) * from.stride + piece() * 8) {}

  __device__ void copy(char* to) {
    char* slot = to + piece_offset(int(threadIdx.x) / kPieces, piece());
#pragma unroll
    for (int i = 0; i < kCount / kStep; ++i) {
      const bool present = i * kStep < present_ && left_ > 0;
      const __nv_bfloat16* source = from_ + i * kStep * stride_;
      if constexpr (kAligned) {
        copy_piece_or_zeros(shared_address(slot + i * kStep * kRowBytes), source, present);
      } else {
        *reinterpret_cast<uint4*>(slot + i * kStep * kRowBytes) = present ? gather(source) : make_uint4(0, 0, 0, 0);
      }
    }
    from_ += kStageColumns;
    left_ -= kStageColumns;
  }

 private:
  static constexpr int kStep = kThreads / kPieces;  // rows, an even number: piece_offset() is that of the first for all
  __device__ static int piece() { return int(threadIdx.x) % kPieces; }

  __device__ uint4 gather(const __nv_bfloat16* source) const {
    const auto* bits = reinterpret_cast<const uint16_t*>(source);
    const auto at = [&](int i) { return i < left_ ? uint32_t(bits[i]) : 0u; };
    return make_uint4(at(0) | at(1) << 16, at(2) | at(3) << 16, at(4) | at(5) << 16, at(6) | at(7) << 16);
  }

  int left_;     // columns from the piece on
  int present_;  // rows from the first piece's on
  int64_t stride_;
  const __nv_bfloat16* from_;
};

__device__ uint4 read_piece(const char* matrix, int row, int piece) {
  return *reinterpret_cast<const uint4*>(matrix + piece_offset(row, piece));
}

// The block's tile: groups of kGroupRows row tiles; within one the tokens change slowly.
struct Tile {
  int row, token;
  __device__ Tile(int row_tiles, int token_tiles) {
    const int per_group = kGroupRows * token_tiles, group = int(blockIdx.x) / per_group;
    const int first = group * kGroupRows, count = min(kGroupRows, row_tiles - first);
    const int within = int(blockIdx.x) - group * per_group;
    row = (first + within % count) * kRows;
    token = within / count * kTokens;
  }
};

template <class Y, bool kAligned>
__global__ void __launch_bounds__(kThreads, kAligned ? 2 : 1) tile_kernel(const Product product, RowsOf<Y> y) {
  extern __shared__ __align__(16) char shared[];
  const Tile tile((product.rows + kRows - 1) / kRows, (product.tokens + kTokens - 1) / kTokens);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
  const int chunks = num_chunks(product.columns), stages = (chunks + kStageChunks - 1) / kStageChunks;
  StageCopy<kRows, kAligned> weight({product.weight, product.columns}, tile.row, product.rows, product.columns);
  StageCopy<kTokens, kAligned> x(product.x, tile.token, product.tokens, product.columns);
  constexpr int kTokensAt = kRows * kRowBytes;  // in a stage
  for (int stage = 0; stage < min(kStages - 1, stages); ++stage) weight.copy(shared + stage * kStageBytes);
  begin_step_kernel();
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < stages) x.copy(shared + stage * kStageBytes + kTokensAt);
    end_copy_group();
  }

  float sums[kUnits][kTiles][4] = {}, totals[kUnits][kTiles][4] = {};
  const auto end_slice = [&] {
#pragma unroll
    for (int i = 0; i < kUnits * kTiles * 4; ++i) {
      (&totals[0][0][0])[i] += (&sums[0][0][0])[i];
      (&sums[0][0][0])[i] = 0;
    }
  };
  int slice = 0;
  for (int stage = 0; stage < stages; ++stage) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // the stage is there, and all have read the one before it, which is overwritten now
    if (const int next = stage + kStages - 1; next < stages) {
      weight.copy(shared + next % kStages * kStageBytes);
      x.copy(shared + next % kStages * kStageBytes + kTokensAt);
    }
    end_copy_group();
    const char* rows = shared + stage % kStages * kStageBytes + warp / 2 * kUnits * kUnitRows * kRowBytes;
    const char* tokens = shared + stage % kStages * kStageBytes + (kRows + warp % 2 * kTiles * kTileTokens) * kRowBytes;
#pragma unroll
    for (int c = 0; c < kStageChunks; ++c) {
      const int chunk = stage * kStageChunks + c;
      if (chunk >= chunks) break;
      for (; chunk == slice_begin(slice + 1, chunks); ++slice) end_slice();
      uint4 pieces[kTiles];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) pieces[j] = read_piece(tokens, j * kTileTokens + g, c * 4 + t);
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const uint4 low = read_piece(rows, i * kUnitRows + g, c * 4 + t);
        const uint4 high = read_piece(rows, i * kUnitRows + g + 8, c * 4 + t);
#pragma unroll
        for (int j = 0; j < kTiles; ++j) multiply_chunk(low, high, pieces[j], sums[i][j]);
      }
    }
  }
  end_slice();

#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + (warp / 2 * kUnits + i) * kUnitRows + half * 8 + g;
      if (row >= product.rows) continue;
      const float bias = product.bias == nullptr ? 0.0f : product.bias[row];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const int token = tile.token + (warp % 2 * kTiles + j) * kTileTokens + 2 * t;
        for (int second = 0; second < 2; ++second) {
          const float total = totals[i][j][2 * half + second];
          if (token + second < product.tokens) y[token + second][row] = from_float<Y>(product.bias == nullptr ? total : total + bias);
        }
      }
    }
  }
}

}  // namespace

void tile_matmul(const StepContext& step, const NodeArgs& args) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  if (y.elements() == 0) return;
  const Product product = product_of(args);
  const unsigned row_tiles = unsigned(product.rows + kRows - 1) / kRows, token_tiles = unsigned(product.tokens + kTokens - 1) / kTokens;
  const bool aligned = x.dims[1] % 8 == 0 && x.strides[0] % 8 == 0 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
  dispatch_float(y.dtype, [&]<class Y>() {
    dispatch_bool(aligned, [&]<bool kAligned>() {
      allow_shared<tile_kernel<Y, kAligned>>(current_device(), kStages * kStageBytes);
      launch(tile_kernel<Y, kAligned>, row_tiles * token_tiles, kThreads, kStages * kStageBytes, stream_of(step), product,
             rows_of<Y>(y));
    });
  });
}

}  // namespace headrace::cuda
