#pragma once
// What the two own bf16 products share, so that a row of y has the same bits in both, at any number of tokens.
//
// An element of y is summed like this: the K columns are cut into chunks of 32 and the chunks into kSlices slices of nearly equal length.
// A slice is a chain of two m16n8k16 a chunk, rising; the slices are added in order, starting from 0, then the bias. Missing columns of
// the last chunk are zeros. Weights are the M operand, tokens the N operand.
//
// Which columns of a chunk the hardware pairs is free, as long as both operands agree: lane (g, t) = (lane / 4, lane % 4) takes columns
// 8t..8t+7 of its rows in one 16-byte piece, words 0 and 1 for the first m16n8k16, 2 and 3 for the second.

#include <atomic>

#include "kernels/cuda/launch.cuh"

namespace headrace::cuda {

inline constexpr int kChunk = 32;       // columns
inline constexpr int kUnitRows = 16;    // rows of the weight in one instruction
inline constexpr int kTileTokens = 8;   // tokens in one instruction
inline constexpr int kSlices = 8;

__host__ __device__ inline int num_chunks(int64_t columns) { return int((columns + kChunk - 1) / kChunk); }
__host__ __device__ inline int slice_begin(int slice, int chunks) { return slice * chunks / kSlices; }

// sums += weights * tokens over one chunk. `low` and `high` are the pieces of rows g and g + 8, `x` that of token g; sums are
// (row g, tokens 2t and 2t + 1), (row g + 8, the same tokens).
__device__ inline void multiply_chunk(const uint4& low, const uint4& high, const uint4& x, float (&sums)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(low.x), "r"(high.x), "r"(low.y), "r"(high.y), "r"(x.x), "r"(x.y));
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(low.z), "r"(high.z), "r"(low.w), "r"(high.w), "r"(x.z), "r"(x.w));
}

// ---- asynchronous copies of 16 bytes to shared memory ----------------------------------------------------------

__device__ inline uint32_t shared_address(const void* shared) { return uint32_t(__cvta_generic_to_shared(shared)); }

// A miss brings the aligned 256 bytes around the piece into L2: rows are read on from where a piece ends.
__device__ inline void copy_piece(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// Zeros instead where not `present`; `from` must be an address all the same.
__device__ inline void copy_piece_or_zeros(uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present ? 16 : 0) : "memory");
}
__device__ inline void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the last kPending groups of this thread have arrived.
template <int kPending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- launches --------------------------------------------------------------------------------------------------

// Operands of matmul_bf16 as kernels take them.
struct Product {
  RowsOf<const __nv_bfloat16> x;
  const __nv_bfloat16* weight;
  const float* bias;  // null without
  int rows, columns, tokens;
};
inline Product product_of(const NodeArgs& args) {
  const TensorView& x = args.inputs[0].tensor;
  return {.x = rows_of<const __nv_bfloat16>(x),
          .weight = reinterpret_cast<const __nv_bfloat16*>(args.inputs[1].weight.data),
          .bias = args.inputs.size() > 2 ? reinterpret_cast<const float*>(args.inputs[2].weight.data) : nullptr,
          .rows = int(args.outputs[0].tensor.dims[1]),
          .columns = int(x.dims[1]),
          .tokens = int(x.dims[0])};
}

// Lets `kernel` have `bytes` of dynamic shared memory on the current device; asks the driver once a device.
template <auto kernel>
void allow_shared(int device, int bytes) {
  static std::atomic<uint64_t> allowed{0};
  const uint64_t bit = uint64_t{1} << (device % 64);
  if ((allowed.load(std::memory_order_relaxed) & bit) != 0) return;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  allowed.fetch_or(bit, std::memory_order_relaxed);
}

inline int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

}  // namespace headrace::cuda
