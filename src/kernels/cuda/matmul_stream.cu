// matmul_bf16 for few tokens: bound by reading the weight once, 4.55 TB/s on an H200. A block an SM takes a run of 16-row units, whose
// number differs by one at most between blocks, kUnits at a time; its eight warps split K, so that a step of the loop reads 64 bytes of
// each of 16 or 32 rows a warp. Every lane copies the pieces of its own fragments into a queue of its own in shared memory: 96 KiB on
// their way an SM, no barrier but for the sum over the warps. The queue is filled before the kernel's predecessor has ended, since
// weights do not change: some 13 MB in all, which hides launch and start. A few tokens are copied to shared memory before the first
// product, each lane its own pieces; more come from L1 and L2 one step ahead. Row-invariant, with the sums of mma.cuh.
#include "kernels/cuda/matmul_stream.h"

#include <algorithm>

#include "kernels/cuda/mma.cuh"

namespace headrace::cuda {
namespace {

constexpr int kWarps = kSlices;
constexpr int kThreads = 32 * kWarps;
constexpr int kPieceBytes = 16;
constexpr int kLanesBytes = 32 * kPieceBytes;      // one piece of every lane
constexpr int kQueueBytes = 12 * 1024;             // of a warp
constexpr int kUnitBytes = 2 * kLanesBytes;        // of a chunk

// Up to so many bytes of tokens are staged: what the queues leave of an SM's shared memory.
constexpr int kMaxStagedBytes = 115 * 1024;

template <int kUnits, int kTiles>
constexpr int shared_bytes() {
  return kWarps * kQueueBytes + 2 * kWarps * kUnits * kUnitRows * kTiles * kTileTokens * int(sizeof(float));
}

// The pieces of one lane, chunk after chunk through all the passes of its block, and where the next one is copied from.
template <int kUnits>
class WeightQueue {
 public:
  static constexpr int kDepth = kQueueBytes / (kUnits * kUnitBytes);

  __device__ WeightQueue(const Product& product, char* shared, int first_unit, int end_unit, int begin, int end)
      : product_(product), shared_(shared + (threadIdx.x / 32) * kQueueBytes + (threadIdx.x % 32) * kPieceBytes), unit_(first_unit),
        end_unit_(end_unit), begin_(begin), end_(end), chunk_(begin) {
    if (begin == end) unit_ = end_unit;
  }

  // Starts the copy of the next chunk, if there is one, into the slot of the pop before the last.
  __device__ void push() {
    if (unit_ < end_unit_) {
      const int lane = threadIdx.x % 32;
      const uint32_t to = shared_address(shared_) + uint32_t(write_) * kUnits * kUnitBytes;
#pragma unroll
      for (int piece = 0; piece < 2 * kUnits; ++piece) {
        if (unit_ + piece / 2 >= end_unit_) break;
        // Rows past the last one are the last one again: their sums are not stored.
        const int row = min((unit_ + piece / 2) * kUnitRows + piece % 2 * 8 + lane / 4, product_.rows - 1);
        copy_piece(to + piece * kLanesBytes, product_.weight + int64_t(row) * product_.columns + chunk_ * kChunk + lane % 4 * 8);
      }
      if (++chunk_ == end_) {
        chunk_ = begin_;
        unit_ += kUnits;
      }
    }
    end_copy_group();
    write_ = write_ + 1 == kDepth ? 0 : write_ + 1;
  }
  // Waits for the next chunk and reads it. Its slot is written again by the push that follows the next pop.
  __device__ void pop(uint4 (&pieces)[2 * kUnits]) {
    wait_for_copies<kDepth - 2>();
    const char* from = shared_ + read_ * kUnits * kUnitBytes;
#pragma unroll
    for (int piece = 0; piece < 2 * kUnits; ++piece) pieces[piece] = *reinterpret_cast<const uint4*>(from + piece * kLanesBytes);
    read_ = read_ + 1 == kDepth ? 0 : read_ + 1;
  }

 private:
  const Product& product_;
  char* shared_;
  int unit_, end_unit_;
  int begin_, end_, chunk_;
  int read_ = 0, write_ = 0;
};

template <int kTiles>
__device__ void load_tokens(const Product& product, int chunk, uint4 (&x)[kTiles]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int token = tile * kTileTokens + lane / 4;
    x[tile] = make_uint4(0, 0, 0, 0);
    if (token < product.tokens) x[tile] = *reinterpret_cast<const uint4*>(product.x[token] + chunk * kChunk + lane % 4 * 8);
  }
}

// A lane's own pieces of the tokens, [chunk][token][lane % 4]: it alone reads them again, so that no barrier is needed.
class StagedTokens {
 public:
  __device__ StagedTokens(const Product& product, char* shared)
      : shared_(shared + threadIdx.x % 4 * kPieceBytes), token_(threadIdx.x % 32 / 4), tokens_(product.tokens) {}
  __device__ void copy(const Product& product, int begin, int end) {
    const __nv_bfloat16* from = product.x[token_] + threadIdx.x % 4 * 8;
    if (token_ < tokens_) {
      for (int chunk = begin; chunk < end; ++chunk) copy_piece(shared_address(at(chunk)), from + chunk * kChunk);
    }
    end_copy_group();
    wait_for_copies<0>();
  }
  __device__ uint4 operator[](int chunk) const {
    return token_ < tokens_ ? *reinterpret_cast<const uint4*>(at(chunk)) : make_uint4(0, 0, 0, 0);
  }

 private:
  __device__ char* at(int chunk) const { return shared_ + (chunk * tokens_ + token_) * 4 * kPieceBytes; }
  char* shared_;
  int token_, tokens_;
};

// Adds the warps' sums in order and stores them. `partial` is [warp][row of the pass][token].
template <int kUnits, int kTiles, class Y>
__device__ void store_sums(const Product& product, const float* partial, int unit, int end_unit, RowsOf<Y> y) {
  constexpr int kRows = kUnits * kUnitRows, kTokens = kTiles * kTileTokens;
  const int first = unit * kUnitRows, rows = min(kRows, min(end_unit * kUnitRows, product.rows) - first);
#pragma unroll 1
  for (int i = threadIdx.x; i < kRows * product.tokens; i += kThreads) {
    const int token = i / kRows, row = i % kRows;
    if (row >= rows) continue;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += partial[(warp * kRows + row) * kTokens + token];
    if (product.bias != nullptr) sum += product.bias[first + row];
    y[token][first + row] = from_float<Y>(sum);
  }
}

template <int kUnits, int kTiles, bool kStaged, class Y>
__global__ void __launch_bounds__(kThreads, 1) stream_kernel(const Product product, RowsOf<Y> y) {
  constexpr int kRows = kUnits * kUnitRows, kTokens = kTiles * kTileTokens;
  extern __shared__ __align__(16) char shared[];
  float* partial = reinterpret_cast<float*>(shared + kWarps * kQueueBytes);  // twice: of this pass and of the one before
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int units = (product.rows + kUnitRows - 1) / kUnitRows;
  const int first_unit = int(int64_t(units) * blockIdx.x / gridDim.x), end_unit = int(int64_t(units) * (blockIdx.x + 1) / gridDim.x);
  const int chunks = num_chunks(product.columns);
  const int begin = slice_begin(warp, chunks), end = slice_begin(warp + 1, chunks);

  WeightQueue<kUnits> queue(product, shared, first_unit, end_unit, begin, end);
  for (int i = 0; i < WeightQueue<kUnits>::kDepth - 1; ++i) queue.push();
  begin_step_kernel();
  static_assert(!kStaged || kTiles == 1);
  StagedTokens staged(product, shared + shared_bytes<kUnits, kTiles>());
  uint4 next_x[kTiles];
  if constexpr (kStaged) {
    staged.copy(product, begin, end);
  } else if (begin < end) {
    load_tokens(product, begin, next_x);
  }
  for (int unit = first_unit; unit < end_unit; unit += kUnits) {
    float sums[kUnits][kTiles][4] = {};
    for (int chunk = begin; chunk < end; ++chunk) {
      uint4 x[kTiles], pieces[2 * kUnits];
      if constexpr (kStaged) {
        x[0] = staged[chunk];
      } else {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) x[tile] = next_x[tile];
        load_tokens(product, chunk + 1 < end ? chunk + 1 : begin, next_x);
      }
      queue.pop(pieces);
      queue.push();
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) multiply_chunk(pieces[2 * i], pieces[2 * i + 1], x[tile], sums[i][tile]);
      }
    }
    float* mine = partial + warp * kRows * kTokens + (lane / 4) * kTokens + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        float* to = mine + i * kUnitRows * kTokens + tile * kTileTokens;
        *reinterpret_cast<float2*>(to) = make_float2(sums[i][tile][0], sums[i][tile][1]);
        *reinterpret_cast<float2*>(to + 8 * kTokens) = make_float2(sums[i][tile][2], sums[i][tile][3]);
      }
    }
    __syncthreads();
    store_sums<kUnits, kTiles>(product, partial, unit, end_unit, y);
    partial = reinterpret_cast<float*>(shared + kWarps * kQueueBytes) +
              (partial == reinterpret_cast<float*>(shared + kWarps * kQueueBytes) ? kWarps * kRows * kTokens : 0);
  }
}

int num_multiprocessors(int device) {
  static std::atomic<int> counts[64];
  int count = counts[device % 64].load(std::memory_order_relaxed);
  if (count == 0) {
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    counts[device % 64].store(count, std::memory_order_relaxed);
  }
  return count;
}

template <int kUnits, int kTiles, bool kStaged, class Y>
void launch_stream(const StepContext& step, const Product& product, const TensorView& y, int device, int blocks) {
  constexpr auto* kernel = stream_kernel<kUnits, kTiles, kStaged, Y>;
  const int staged = kStaged ? product.tokens * product.columns * int(sizeof(__nv_bfloat16)) : 0;
  allow_shared<kernel>(device, shared_bytes<kUnits, kTiles>() + (kStaged ? kMaxStagedBytes : 0));
  launch(kernel, unsigned(blocks), kThreads, size_t(shared_bytes<kUnits, kTiles>() + staged), stream_of(step), product, rows_of<Y>(y));
}

template <class Y>
void launch_stream(const StepContext& step, const Product& product, const TensorView& y) {
  const int device = current_device(), units = (product.rows + kUnitRows - 1) / kUnitRows;
  const int blocks = std::min(units, num_multiprocessors(device));
  const bool pairs = units > blocks;
  const auto run = [&]<int kTiles, bool kStaged>() {
    return pairs ? launch_stream<2, kTiles, kStaged, Y>(step, product, y, device, blocks)
                 : launch_stream<1, kTiles, kStaged, Y>(step, product, y, device, blocks);
  };
  if (product.tokens > kTileTokens) return run.template operator()<2, false>();
  const bool staged = int64_t{product.tokens} * product.columns * int64_t(sizeof(__nv_bfloat16)) <= kMaxStagedBytes;
  return staged ? run.template operator()<1, true>() : run.template operator()<1, false>();
}

}  // namespace

bool streams(const NodeArgs& args) {
  const TensorView& x = args.inputs[0].tensor;
  const auto aligned = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % kPieceBytes == 0; };
  return x.dims[0] <= kMaxStreamTokens && x.dims[1] % kChunk == 0 && x.strides[0] % 8 == 0 && aligned(x.data) &&
         aligned(args.inputs[1].weight.data);
}

void stream_matmul(const StepContext& step, const NodeArgs& args) {
  const TensorView& x = args.inputs[0].tensor;
  const TensorView& y = args.outputs[0].tensor;
  if (y.elements() == 0) return;
  const Product product = product_of(args);
  return y.dtype == DType::f32 ? launch_stream<float>(step, product, y) : launch_stream<__nv_bfloat16>(step, product, y);
}

}  // namespace headrace::cuda
